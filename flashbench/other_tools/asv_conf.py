"""Read asv.conf.json, an untrusted file: JSON with comments and commas at the end of lists."""

import json
import re
from pathlib import Path
from typing import Any

from flashbench.errors import InvalidInputError
from flashbench.other_tools import untrusted_json

NAME = "asv.conf.json"
NAMES = (NAME, "asv.conf.jsonc")
# A string, which is kept, or what asv.conf.json allows and JSON does not: comments, and a comma at
# the end of a list. An unclosed one extends to the end of the file, in one step.
_PARTS = re.compile(
    r'("(?:\\.|[^"\\])*+(?:["\\]|\Z))|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[}\]])', re.DOTALL
)


def find(folder: Path) -> Path | None:
    """The settings in a folder, by either of asv's names."""
    return next((folder / name for name in NAMES if (folder / name).is_file()), None)


def read(path: Path) -> dict[str, Any]:
    """The settings. Raises InvalidInputError if they cannot be read."""
    try:
        text = untrusted_json.content(path).decode("utf-8-sig")
        # Comments first, because a comma may precede one.
        for _ in range(2):
            text = _PARTS.sub(lambda found: found[1] or "", text)
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{path}: not asv's settings: {error}") from None
    if not isinstance(found, dict):
        raise InvalidInputError(f"{path}: not asv's settings")
    return found
