"""Hooks of mkdocs.yml: what the site of the documentation has besides the pages in docs/.

The navigation is the list in docs/README.md; the page of commands comes from the code; README and
other pages of the repository are part of the site, and so are the files that pages link to.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

import commands_page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
# Pages of the repository's root, by their names in the site.
PAGES = {"README.md": "flashbench.md", "CONTRIBUTING.md": "contributing.md"}
PAGES |= {"CHANGELOG.md": "changelog.md"}
FOLDER = "repository"  # of the files outside of docs/ that pages link to
FOREIGN_SHIM, SHIM = "https://unpkg.com/iframe-worker/shim", "assets/iframe-worker.js"
_LINK = re.compile(r'(!?\[[^\]]*\]\(|\b(?:src|srcset|href)=")([^)\s"]+)')
_EXTERNAL_IMAGE = re.compile(r"!\[([^\]]*)\]\(https?:[^)]*\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The sections of docs/README.md, each with the pages that it links to."""
    navigation: list[Any] = [{"Documentation": "README.md"}]
    for section in re.split(r"^## ", (DOCS / "README.md").read_text(), flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        links = (_in_site(link.partition("#")[0], DOCS) for _, link in _LINK.findall(text))
        pages = [link for link in dict.fromkeys(links) if link.endswith(".md")]
        navigation.append({title: pages})
    listed = {page for entry in navigation[1:] for pages in entry.values() for page in pages}
    rest = [page for page in PAGES.values() if page not in listed]
    config.nav = [*navigation, {"Project": rest}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root, and every file outside of docs/ that a page links to."""
    linked: set[str] = set()
    for path in [*DOCS.rglob("*.md"), *(ROOT / name for name in PAGES)]:
        for _, link in _LINK.findall(path.read_text()):
            place = _in_site(link.partition("#")[0], path.parent)
            if place.startswith(FOLDER + "/"):
                linked.add(place)
    for name, place in PAGES.items():
        text = _moved((ROOT / name).read_text(), ROOT, place)
        files.append(File.generated(config, place, content=text))
    for place in sorted(linked):
        file = ROOT / place.removeprefix(FOLDER + "/")
        files.append(File.generated(config, place, abs_src_path=str(file)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to what has another place in the site; no picture from another host."""
    place = page.file.src_uri
    if place == "commands.md":
        markdown = commands_page.page()
    if place not in PAGES.values():  # those are moved already
        markdown = _moved(markdown, (DOCS / place).parent, place)
    return _EXTERNAL_IMAGE.sub(r"\1", markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """The one script that the theme loads from another host is in docs/assets/."""
    return _finished(output, posixpath.relpath(SHIM, posixpath.dirname(page.file.dest_uri) or "."))


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """The same for the page of addresses that lead nowhere."""
    return _finished(output_content, SHIM)


def _finished(html: str, shim: str) -> str:
    """The page with its own script, and a name for the dialog that the theme leaves without one."""
    return html.replace(FOREIGN_SHIM, shim).replace(
        'role="dialog"', 'role="dialog" aria-label="Search"'
    )


def _moved(text: str, folder: Path, place: str) -> str:
    """The text of a page that lies in `folder`, for its place in the site."""

    def link(found: re.Match[str]) -> str:
        target, mark, anchor = found[2].partition("#")
        there = _in_site(target, folder)
        if there == target or not target:
            return found[0]
        return found[1] + posixpath.relpath(there, posixpath.dirname(place) or ".") + mark + anchor

    return _LINK.sub(link, text)


def _in_site(link: str, folder: Path) -> str:
    """Where the file that a page in `folder` links to lies in the site; other hosts, and what is
    no file, as they are."""
    if not link or re.match(r"[a-z]+:|/", link):
        return link
    file = (folder / link).resolve()
    if not file.is_file() or not file.is_relative_to(ROOT):
        return link
    if file.is_relative_to(DOCS):
        return file.relative_to(DOCS).as_posix()
    name = file.relative_to(ROOT).as_posix()
    return PAGES.get(name, f"{FOLDER}/{name}")
