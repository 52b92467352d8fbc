"""YAML that somebody else may have written: plain values only, of modest depth and size."""

from __future__ import annotations

from typing import Any

from evolvent._core.errors import ConfigError, shortened

_DEPTH = 40  # levels of nesting; the parser in C has no limit of its own and ends the process
_NODES = 500_000  # values, each counted as often as aliases repeat it


def parse_yaml(text: str, source: str) -> Any:
    """The plain values in a YAML text.

    Raises:
        ConfigError: one line that names ``source``, for text that is not YAML, has tags, or is nested too deeply.

    >>> parse_yaml("lr: 0.1", "my.yaml")
    {'lr': 0.1}
    """
    import yaml  # here, because it would slow down every import of the package

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        if _may_be_deep(text):
            _check_depth(text, source)
        values = _loaded(loader(text), source)
    except (yaml.YAMLError, ValueError, TypeError, OverflowError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{source} is not valid YAML: {shortened(_reason(error), 120).rstrip('.')}.") from None
    if "*" in text:  # aliases repeat values, without end if they stand in themselves
        _check_size(values, source)
    return values


def _loaded(loader: Any, source: str) -> Any:
    """The value of the only document of a text."""
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        _refuse_repeated_keys(root, source)
        return loader.construct_document(root)
    finally:
        loader.dispose()


def _refuse_repeated_keys(root: Any, source: str) -> None:
    """Of two values under one key the parser would silently keep the last."""
    waiting, seen = [root], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen or isinstance(node.value, str):
            continue
        seen.add(id(node))
        if node.id == "sequence":
            waiting.extend(node.value)
            continue
        known = set()
        for key, value in node.value:
            waiting += [key, value]
            if not isinstance(key.value, str) or key.tag == "tag:yaml.org,2002:merge":
                continue
            if (key.tag, key.value) in known:
                line = key.start_mark.line + 1
                raise ConfigError(
                    f"{source} has the key {shortened(repr(key.value), 60)} twice, again in line {line}. Keep one."
                )
            known.add((key.tag, key.value))


def _reason(error: Exception) -> str:
    """The parser's problem and where it is, without the text around it."""
    problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    if problem is None:
        return str(error).splitlines()[0] if str(error) else type(error).__name__
    return problem + (f" in line {mark.line + 1}" if mark else "")


def _may_be_deep(text: str) -> bool:
    """A quick bound: brackets, and indentation with the dashes and question marks of nested lists."""
    if text.count("[") + text.count("{") >= _DEPTH:
        return True
    return any(len(line) - len(line.lstrip(" -?:")) >= _DEPTH for line in text.splitlines())


def _check_depth(text: str, source: str) -> None:
    import yaml

    depth = 0
    for event in yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEPTH:
            raise _too_large(source, f"nested more than {_DEPTH} levels deep")


def _check_size(values: Any, source: str) -> None:
    seen, waiting = 0, [(values, 0)]
    while waiting:
        value, depth = waiting.pop()
        seen += 1
        if depth > _DEPTH or seen > _NODES:
            raise _too_large(source, "a circle or too large, by its aliases")
        inner = [*value.keys(), *value.values()] if isinstance(value, dict) else value
        if isinstance(inner, list | set | tuple):
            waiting.extend((one, depth + 1) for one in inner)


def _too_large(source: str, how: str) -> ConfigError:
    return ConfigError(f"{source} is {how}; write it as plain, flat YAML.")
