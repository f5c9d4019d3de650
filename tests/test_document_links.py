"""Links of the documents: every relative one leads to a file, and every anchor to a heading."""

import os
import re
from collections import Counter
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[1]
_NO_PAGES = {"build", "dist", "results", "site"}  # large, or made by a build
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_MENTION = re.compile(r"\bdocs/[\w/.-]+\.(?:md|yml)\b")


@cache
def _all_files() -> list[Path]:
    """The repository's pages, neither hidden nor where no page is, without a look into .venv."""
    found: list[Path] = []
    for folder, below, names in os.walk(ROOT):
        left_out = _NO_PAGES if Path(folder) == ROOT else set()
        below[:] = [name for name in below if name[0] != "." and name not in left_out]
        found += [Path(folder, name) for name in names if name[0] != "."]
    return sorted(found)


def files(*patterns: str) -> list[Path]:
    return [path for path in _all_files() if any(map(path.match, patterns))]


def prose(text: str) -> str:
    """A page without its blocks and spans of code, whose brackets are no links."""
    return re.sub(r"`[^`\n]*`", "", _FENCE.sub("", text))


def anchors(text: str) -> set[str]:
    """The ids that GitHub gives to a page's headings."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def links(page: Path) -> list[str]:
    """The relative links of a page: other hosts are not asked."""
    found = _LINK.findall(prose(page.read_text()))
    return [unquote(link) for link in found if not re.match(r"[a-z]+:", link)]


def broken(page: Path) -> list[str]:
    """The relative links of a page that lead nowhere."""
    wrong = []
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists():
            wrong.append(f"{link}: no such file")
        elif anchor and anchor not in anchors(target.read_text()):
            wrong.append(f"{link}: no such heading")
    return wrong


@pytest.mark.parametrize("page", files("*.md"), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_of_a_page_leads_somewhere(page: Path) -> None:
    """A link or an anchor of a document that leads nowhere fails, and is named."""
    assert broken(page) == []


def test_every_page_is_checked() -> None:
    """The search finds the README, the pages of docs and those of their folders."""
    names = {str(page.relative_to(ROOT)) for page in files("*.md")}
    assert {"README.md", "CONTRIBUTING.md", "docs/kernels.md", "docs/lab/cpu-kernels.md"} <= names


def test_broken_links_are_found(tmp_path: Path) -> None:
    """A missing file and a missing heading are found; code, other hosts and good links are not."""
    (tmp_path / "other.md").write_text(
        "# Exit codes of `compare`\n## Twice\n## Twice\n```\n# no\n```\n"
    )
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n[a](other.md#exit-codes-of-compare) [b](#here) [c](other.md#twice-1) [d](https://x.y/z)\n"
        "`[e](none.md)`\n```\n[f](none.md)\n```\n[g](gone.md) [h](other.md#no) [i](#there)\n"
    )
    assert broken(page) == [
        "gone.md: no such file",
        "other.md#no: no such heading",
        "#there: no such heading",
    ]


def test_pages_that_code_names_exist() -> None:
    """Every docs/x.md named in a comment, a message or a page exists."""
    texts = [*files("*.py", "*.h", "*.cu", "*.cpp", "*.toml", "*.yml", "*.md"), ROOT / "Makefile"]
    texts = [path for path in texts if path.relative_to(ROOT).parts[0] != "tests"]  # own fixtures
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in texts
        if path.name != "CHANGELOG.md"
        for name in _MENTION.findall(path.read_text(errors="replace"))
        if not (ROOT / name).exists()
    ]
    assert missing == []


def test_sources_that_pages_name_exist() -> None:
    """`csrc/cpu/pack.h`, or its end, in a page's prose is a file of the repository."""
    names = re.compile(r"`([\w/.-]+\.(?:py|h|cu|cpp|js))`")
    sources = [
        f"/{path.relative_to(ROOT)}" for path in files("*.py", "*.h", "*.cu", "*.cpp", "*.js")
    ]
    found = {
        (str(page.relative_to(ROOT)), name)
        for page in files("*.md")
        if page.name != "CHANGELOG.md"
        for name in names.findall(_FENCE.sub("", page.read_text()))
    }
    assert ("docs/kernels.md", "decode/split.h") in found
    missing = {
        where for where in found if not any(path.endswith(f"/{where[1]}") for path in sources)
    }
    assert missing == set()


def test_every_page_of_docs_is_in_the_index() -> None:
    """docs/README.md links each page of docs, so that none is found by luck alone."""
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    pages = {page for page in files("*.md") if page.is_relative_to(index.parent)}
    assert pages - linked - {index} == set()
