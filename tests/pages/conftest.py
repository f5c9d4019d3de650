"""Sites opened in a browser. What needs one is imported by the fixtures: they skip without."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pages.sample import content, sparse

from flashbench.site import encode
from flashbench.site.publish import publish

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of a few blocks of commits, so that every graph is put together from two files."""
    folder = tmp_path_factory.mktemp("a folder <with> a name") / "site"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode, "BLOCK", 9)
        publish(content(), folder)
    return folder


@pytest.fixture
def few(browser: "Browser", tmp_path: Path) -> "Iterator[Page]":
    """The graph of a history of one day, mostly unmeasured."""
    from pages.browser import Visit, figures

    publish(sparse(), tmp_path / "site")
    visited = Visit(browser, tmp_path / "site")
    page = visited.open("graphs.html")
    figures(page, 1)
    yield page
    assert visited.complaints == []
    visited.close()


@pytest.fixture
def visit(browser: "Browser", site: Path) -> "Iterator[Callable[..., Page]]":
    """Opens pages; fails at the end if any logged an error, or requested something outside the
    folder."""
    from pages.browser import Visit

    visits: list[Visit] = []

    def opened(path: str, **options: object) -> "Page":
        visits.append(Visit(browser, site, **options))  # type: ignore[arg-type]
        return visits[-1].open(path)

    yield opened
    assert [complaint for visited in visits for complaint in visited.complaints] == []
    for visited in visits:
        visited.close()
