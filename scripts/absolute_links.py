"""Make the links of README.md absolute, for an index of packages, which has no other file.

Usage: python scripts/absolute_links.py URL TAG, with the repository's URL; the release workflow
does it in its own checkout.
"""

import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!https?://|#)(?P<path>[^)\s]+)\)")


def absolute(text: str, url: str, tag: str) -> str:
    """Links to files of the repository as links to them at that tag; pictures to their bytes."""

    def replaced(link: re.Match[str]) -> str:
        kind = "raw" if link["image"] else "blob"
        target = f"{url.rstrip('/')}/{kind}/{tag}/{link['path']}"
        return f"{link['image']}[{link['text']}]({target})"

    return _LINK.sub(replaced, text)


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: python scripts/absolute_links.py URL TAG")
    README.write_text(absolute(README.read_text(encoding="utf-8"), *sys.argv[1:]), encoding="utf-8")


if __name__ == "__main__":
    main()
