"""Names of folders for names of anything."""

from __future__ import annotations

import hashlib
import re
import unicodedata

_LONGEST = 64
_HASH_DIGITS = 6
_SAFE = re.compile(r"[a-z0-9]([a-z0-9._+=,@-]*[a-z0-9_+=,@-])?")
_HASHED = re.compile(rf".*-[0-9a-f]{{{_HASH_DIGITS}}}")
_UNSAFE_RUN = re.compile(r"[^A-Za-z0-9._+=,@]+")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)  # device names of Windows


def slug(name: str) -> str:
    """A folder name for ``name``: one path component, valid on every system, different for every name.

    A safe name stays as it is: lower-case letters, digits and ``-_.+=,@``, the first a letter or digit. Any other is
    cleaned and ends in a hash of the name. So does one with upper-case letters, since some systems ignore case, and one
    that ends like a hash.

    >>> slug("hamiltonian_h=0.1"), slug("ResNet"), slug("../etc/passwd"), slug("")
    ('hamiltonian_h=0.1', 'ResNet-c7e2cc', 'etc-passwd-7fef78', 'unnamed-e3b0c4')
    """
    if _is_safe(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    return f"{_cleaned(name)}-{digest}"


def _is_safe(name: str) -> bool:
    return (
        len(name) <= _LONGEST
        and _SAFE.fullmatch(name) is not None
        and _HASHED.fullmatch(name) is None
        and _RESERVED.fullmatch(name) is None
    )


def _cleaned(name: str) -> str:
    """The readable part: ASCII, without leading dots and trailing punctuation; accents are dropped."""
    ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    joined = _UNSAFE_RUN.sub("-", ascii_only).lstrip("-_.+=,@")[: _LONGEST - _HASH_DIGITS - 1].rstrip("-.")
    if _RESERVED.fullmatch(joined):  # the system looks at what stands before the first dot
        joined = joined.replace(".", "-")
    return joined or "unnamed"
