"""Shortcuts in the build cache: from git's description of a commit to its build.

`known/DIGEST` has the key of a build or an import root. Files are written atomically and stay valid
forever, because both ends are hashes of contents; readers ignore one whose target is gone.
"""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from flashbench.files import replace_file

_KEY = re.compile(r"[0-9a-f]{32}")


def find(cache: Path, described: Sequence[object]) -> str | None:
    """The key remembered for this, if any. described: encoded as JSON."""
    try:
        key = _path(cache, described).read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    return key if _KEY.fullmatch(key) else None


def remember(cache: Path, described: Sequence[object], key: str) -> None:
    """Remember a key. Raises OSError if the cache cannot be written."""
    replace_file(_path(cache, described), key.encode("ascii"))


def _path(cache: Path, described: Sequence[object]) -> Path:
    digest = hashlib.sha256(msgspec.json.encode(described)).hexdigest()[:32]
    return cache / "known" / digest
