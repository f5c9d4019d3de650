"""`make docs`: the documentation as a site is complete, linked, and opens from disk offline."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest.importorskip("material", reason="no mkdocs-material: pip install flashbench[docs]")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make docs` builds it: any warning, such as a link that leads nowhere, is an error."""
    folder = tmp_path_factory.mktemp("documentation")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir"]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'scripts'}"}
    environment |= {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [*command, str(folder)], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


class Page(HTMLParser):
    """The ids of a page, its links, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attributes}
        self.ids |= {known[name] for name in ("id", "name") if name in known}
        if tag == "a" and "href" in known:
            self.links.append(known["href"])
        elif tag != "a":
            self.loaded += [known[name] for name in ("src", "href") if name in known]


@pytest.fixture(scope="module")
def pages(built: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in built.rglob("*.html")}


def broken(path: Path, page: Page, pages: dict[Path, Page]) -> Iterator[str]:
    """The links of a page into the site that lead nowhere."""
    for link in [*page.links, *page.loaded]:
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = unquote(link).partition("#")
        target = (path.parent / name.partition("?")[0]).resolve() if name else path
        if not target.is_file():
            yield f"{path.name}: {link}: no such file"
        elif anchor and target in pages and anchor not in pages[target].ids:
            yield f"{path.name}: {link}: no such heading"


def test_every_page_is_there_and_every_link_leads_somewhere(
    built: Path, pages: dict[Path, Page]
) -> None:
    """Each document has its page, the README too; links are those of files on a disk."""
    documents = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    wanted = {str(path.with_suffix(".html")) for path in documents} - {"README.html"}
    made = {str(path.relative_to(built)) for path in pages}
    assert made == wanted | {
        "index.html", "404.html", "flashbench.html", "contributing.html", "changelog.html",
    }  # fmt: skip
    pages = {path: page for path, page in pages.items() if path.name != "404.html"}
    assert [one for path, page in pages.items() for one in broken(path, page, pages)] == []


def test_nothing_is_loaded_from_elsewhere(pages: dict[Path, Page]) -> None:
    """No script, style, font or picture of another host; no style sheet asks for one."""
    loaded = {link for page in pages.values() for link in page.loaded}
    assert [link for link in loaded if re.match("(https?:)?//", link)] == []
    (folder,) = {path.parent for path in pages if path.name == "index.html"}
    for sheet in folder.rglob("*.css"):
        assert not re.search(r"(url\(|@import )['\"]?(https?:)?//", sheet.read_text()), sheet


def test_every_page_is_in_the_navigation(pages: dict[Path, Page]) -> None:
    """docs/README.md lists all of them."""
    index = next(page for path, page in pages.items() if path.name == "index.html")
    (folder,) = {path.parent for path in pages if path.name == "index.html"}
    named = {str((folder / link.partition("#")[0]).resolve()) for link in index.links}
    missing = {str(path) for path in pages if path.name != "404.html"} - named
    assert missing == set()


def test_it_is_read_and_searched_from_disk(browser: "Browser", built: Path) -> None:
    """In a Chromium without a network: a word leads to the pages that have it."""
    from pages.browser import Visit

    visited = Visit(browser, built)
    page = visited.open("quick-start.html")
    page.get_by_label("Search").first.click()
    page.keyboard.type("bisect")
    page.locator(".md-search-result__link").first.wait_for()
    assert "bisect" in page.locator(".md-search-result__list").text_content().lower()
    assert visited.complaints == []
    visited.close()


def test_axe_finds_nothing(browser: "Browser", built: Path) -> None:
    """No violation of WCAG 2 A and AA on a page of text, links, code and tables, light and dark."""
    from pages.browser import Visit
    from pages.test_accessibility import violations

    visited = Visit(browser, built)
    page = visited.open("profiling.html")
    for scheme, drawn in {"light": "default", "dark": "slate"}.items():
        page.emulate_media(color_scheme=scheme)
        page.locator(f"body[data-md-color-scheme={drawn}]").wait_for()
        page.wait_for_function("() => document.getAnimations().length === 0")
        assert violations(page) == [], scheme
    assert visited.complaints == []
    visited.close()
