"""Print a release's section of CHANGELOG.md: `changelog.py v0.2.0`.

    python scripts/changelog.py cut 0.2.0     # before the tag: "Unreleased" becomes 0.2.0, of today

Printing fails where the tag is not the version of pyproject.toml, or has no section.
"""

import datetime
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNRELEASED = "## Unreleased\n"


def section(changelog: str, version: str) -> str:
    """The text under the heading `## VERSION - DATE`; LookupError without any."""
    heading = rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)"
    found = re.search(heading, changelog, re.MULTILINE | re.DOTALL)
    if not found or not found[1].strip():
        raise LookupError(f"CHANGELOG.md has no section {version} with anything in it")
    return found[1].strip() + "\n"


def cut(changelog: str, version: str, day: datetime.date) -> str:
    """Turn the Unreleased section into that version's; LookupError if it is empty."""
    head, found, rest = changelog.partition(UNRELEASED)
    if not found or not rest.split("\n## ", 1)[0].strip():
        raise LookupError("CHANGELOG.md has nothing under Unreleased")
    return f"{head}{UNRELEASED}\n## {version} - {day.isoformat()}\n{rest}"


def main(*arguments: str) -> None:
    path = ROOT / "CHANGELOG.md"
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    version = arguments[-1].removeprefix("v") if arguments else ""
    try:
        if version != stated:
            raise LookupError(f"pyproject.toml has version {stated}, not {version or 'none'}")
        if arguments[:-1] == ("cut",):
            path.write_text(cut(path.read_text(), version, datetime.date.today()))
        else:
            sys.stdout.write(section(path.read_text(), version))
    except LookupError as error:
        sys.exit(f"flashbench: {error}; see docs/releasing.md")


if __name__ == "__main__":
    main(*sys.argv[1:])
