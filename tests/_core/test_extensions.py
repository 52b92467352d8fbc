"""Extensions: packages on the path that register names through an entry point."""

import subprocess
import textwrap
from pathlib import Path

import pytest
from warm_interpreter import Program

import evolvent

SOURCE = Path(evolvent.__file__).parents[1]

COLOURS = """
    from evolvent._core.registry import Registry
    colours = Registry("colour")
    colours.add("red", 1)
"""


@pytest.fixture
def site(tmp_path, interpreter):
    """A folder of installed packages, and programs that have it on their path."""

    class Site:
        def install(self, package: str, code: str, *entries: str) -> None:
            module = package.replace("-", "_")
            (tmp_path / f"{module}.py").write_text(textwrap.dedent(code))
            info = tmp_path / f"{module}-1.0.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
            lines = entries or (f"main = {module}",)
            (info / "entry_points.txt").write_text("\n".join(["[evolvent.extensions]", *lines]))

        def run(self, program: str) -> subprocess.CompletedProcess[str]:
            (tmp_path / "colours.py").write_text(textwrap.dedent(COLOURS))
            script = tmp_path / "program.py"
            script.write_text(textwrap.dedent(program))
            path = [str(tmp_path), str(SOURCE)]
            return interpreter.run(Program(str(script), str(tmp_path), path, filters=["always"]))

        def out(self, program: str) -> str:
            done = self.run(program)
            assert done.returncode == 0, done.stderr
            assert done.stderr == ""
            return done.stdout.strip()

    return Site()


ADD_BLUE = "from colours import colours\ncolours.add('blue', 2)\nprint('loaded')"


@pytest.mark.parametrize(
    "look_up",
    ["colours.get('blue')", "colours.names()", "'blue' in colours", "list(colours)", "len(colours)"],
)
def test_every_look_up_knows_extensions_and_they_are_loaded_once(site, look_up):
    site.install("blue-pack", ADD_BLUE)
    program = f"from colours import colours\nprint('imported')\n{look_up}\n{look_up}\nprint(colours.get('blue'))"
    shown = site.out(program)
    assert shown.split() == ["imported", "loaded", "2"]


def test_an_entry_point_may_be_a_function(site):
    code = "from colours import colours\ndef register(): colours.add('blue', 2)"
    site.install("blue-pack", code, "a = blue_pack:register")
    assert site.out("from colours import colours\nprint(colours.names())") == "['blue', 'red']"


def test_an_extension_may_look_names_up_while_it_is_loaded(site):
    site.install("blue-pack", "from colours import colours\ncolours.add('blue', 1 + colours.get('red') + len(colours))")
    assert site.out("from colours import colours\nprint(colours.get('blue'))") == "3"


def test_an_extension_that_was_imported_before_registers_once(site):
    site.install("blue-pack", ADD_BLUE)
    shown = site.out("import blue_pack\nfrom colours import colours\nprint(colours.get('blue'))")
    assert shown.split() == ["loaded", "2"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import a_module_that_is_absent", "ModuleNotFoundError: No module named 'a_module_that_is_absent'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise SystemExit('stop')", "SystemExit: stop"),
        ("def broken(:", "SyntaxError"),
        ("raise ValueError('x' * 5000)", "ValueError: xxx"),
    ],
    ids=["absent", "bug", "exit", "syntax", "long"],
)
def test_an_extension_that_fails_is_one_warning_and_the_others_work(site, code, reason):
    site.install("broken-pack", code)
    site.install("blue-pack", "from colours import colours\ncolours.add('blue', 2)")
    done = site.run("from colours import colours\nprint(colours.names(), colours.get('blue'))")
    assert done.stdout.strip() == "['blue', 'red'] 2"
    (line,) = [line for line in done.stderr.splitlines() if "ExtensionWarning" in line]
    assert "extension 'main' of the package broken-pack was not loaded" in line
    assert reason in line
    assert len(line.partition("ExtensionWarning: ")[2]) < 300


@pytest.mark.parametrize("first", ["evolvent or this program", "azure-pack"])
def test_a_name_that_two_register_is_an_error_that_names_both(site, first):
    if first == "azure-pack":
        site.install("azure-pack", "from colours import colours\ncolours.add('blue', 7)")
    name = "blue" if first == "azure-pack" else "red"
    site.install("blue-pack", f"from colours import colours\ncolours.add('{name}', 2)")
    shown = site.out("""
        from colours import colours
        from evolvent.errors import NameClashError
        for look_up in (colours.names, lambda: colours.get("red"), colours.names):
            try:
                look_up()
            except NameClashError as error:
                print(error)
    """).splitlines()
    assert len(shown) == 3
    assert set(shown) == {
        f"colour '{name}' is registered twice: by {first} and by blue-pack. Rename one of them, or uninstall a package."
    }


def test_importing_the_library_loads_no_extension(site):
    """A look-up while the library is imported would load extensions that cannot import the library yet."""
    site.install("blue-pack", "print('loaded')")
    modules = sorted(
        ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        for path in (SOURCE / "evolvent").rglob("*.py")
        if path.stem != "__main__"
    )
    assert site.out(f"import importlib\nfor name in {modules!r}: importlib.import_module(name)\nprint('end')") == "end"


def test_operators_and_networks_of_an_extension_are_known(site):
    site.install(
        "blue-pack",
        """
        from evolvent.networks._registry import register_member
        from evolvent.operators import OPERATORS, Dense
        OPERATORS.add("blue", Dense)
        register_member("blue44", "resnet", blocks=2)
        """,
    )
    assert site.out("import evolvent\nprint(evolvent.list_models('blue*'))") == "['blue44']"
    shown = site.out("from evolvent.operators import make_operator\nprint(make_operator('blue', 2, 2))")
    assert shown.startswith("Dense")
