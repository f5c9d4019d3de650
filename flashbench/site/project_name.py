"""Read the project's name from asv's configuration, an untrusted file."""

import json
import re
from pathlib import Path

from flashbench.errors import InvalidInputError
from flashbench.other_tools import document

_MOST = 100  # characters
# A string, which is kept, or what asv.conf.json allows and JSON does not: comments, and a comma at
# the end of a list. An unclosed one extends to the end of the file, in one step.
_PARTS = re.compile(
    r'("(?:\\.|[^"\\])*+(?:["\\]|\Z))|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[}\]])', re.DOTALL
)


def project_name(repository: Path) -> str:
    """`project` of asv.conf.json, else the name of the folder."""
    folder = repository.resolve().name
    path = repository / "asv.conf.json"
    if not path.is_file():
        return folder
    try:
        text = document.content(path).decode("utf-8-sig")
        # Comments first, because a comma may precede one.
        for _ in range(2):
            text = _PARTS.sub(lambda found: found[1] or "", text)
        name = json.loads(text)["project"]
    except (InvalidInputError, ValueError, RecursionError, KeyError, TypeError):
        return folder  # the site can do without
    name = name.strip() if isinstance(name, str) else ""
    return name[:_MOST] or folder
