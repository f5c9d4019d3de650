"""Render the templates, which escape all text."""

import hashlib
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import jinja2

from flashbench import __version__
from flashbench.figures.page import figure_style, with_figures
from flashbench.render.html import environment
from flashbench.site.case_names import in_short
from flashbench.site.content import Content, shown

NAVIGATION = (
    ("index.html", "Overview"),
    ("graphs.html", "Graphs"),
    ("changes.html", "Changes"),
    ("commits.html", "Commits"),
)


def page(template: str, path: str, content: Content, values: dict[str, Any]) -> bytes:
    """Render a page of the site. path: its file in the site."""
    root = "../" * path.count("/")
    text = (
        _environment()
        .get_template(template)
        .render(project=content.project, baseline=content.baseline, page=path, root=root, **values)
    )
    return text.encode()


def static_files() -> dict[str, bytes]:
    """Style sheets, scripts and pictures, by their file in the site."""
    files = {f"static/{file.name}": file.read_bytes() for file in _files("static")}
    return files | {"static/figures.css": figure_style().encode()}


@cache
def maker_key() -> str:
    """A key that changes with the version, the templates, and the code that makes pages and
    data."""
    digest = hashlib.blake2b(__version__.encode(), digest_size=16)
    for file in [*_files("."), *_files("templates")]:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _files(folder: str) -> list[Traversable]:
    found = (resources.files("flashbench.site") / folder).iterdir()
    return sorted((file for file in found if file.is_file()), key=lambda file: file.name)


@cache
def _environment() -> jinja2.Environment:
    made = with_figures(environment("flashbench.site", shown))
    made.globals |= {"navigation": NAVIGATION, "version": __version__, "in_short": in_short}
    return made
