"""What a build delivered, in the import root of a commit."""

from pathlib import Path

import pytest

from flashbench.builds import Build
from flashbench.builds.content import library_hash
from flashbench.candidates import OUR_CALLABLE
from flashbench.errors import NotMeasuredError
from flashbench.revisions import Project
from flashbench.revisions.import_root import put_together

PACKAGE = "flashbench"


def made(directory: Path, folder: str = "") -> Build:
    """A build that delivered one library in a folder of the package."""
    library = directory / "lib" / PACKAGE / folder / "_C.so"
    library.parent.mkdir(parents=True)
    library.write_text("built")
    return Build(
        key="key",
        status="built",
        source_hash="",
        toolchain={},
        library=str(library.relative_to(directory)),
        library_hash=library_hash(library),
        directory=str(directory),
    )


def import_root(tmp_path: Path, commit: Path, build: Build) -> Path:
    """The import root of a checkout and a build, put together in a new cache."""
    (tmp_path / "scratch").mkdir()
    project, cache = Project(tmp_path, OUR_CALLABLE), tmp_path / "cache"
    cache.mkdir()
    key = put_together(project, commit, tmp_path / "scratch", build, cache)
    return cache / f"site-{key}" / "site"


@pytest.mark.parametrize("link", ["_C.so", "kernels"])
def test_install_writes_through_no_link(tmp_path: Path, link: str) -> None:
    """A commit that brings a link where its build delivers a file gets the file; what the link
    leads to stays as it is."""
    outside, commit = tmp_path / "outside", tmp_path / "commit"
    outside.mkdir()
    (outside / "_C.so").write_text("precious")
    (commit / PACKAGE).mkdir(parents=True)
    (commit / PACKAGE / "__init__.py").touch()
    (commit / PACKAGE / link).symlink_to(outside / "_C.so" if link == "_C.so" else outside)
    folder = "" if link == "_C.so" else link
    installed = import_root(tmp_path, commit, made(tmp_path / "build", folder))
    assert (installed / PACKAGE / folder / "_C.so").read_text() == "built"
    assert (outside / "_C.so").read_text() == "precious"


def test_another_library_than_was_built_is_refused(tmp_path: Path) -> None:
    """One that was put into the cache in its place gets into no import root."""
    (tmp_path / "commit" / PACKAGE).mkdir(parents=True)
    build = made(tmp_path / "build")
    (tmp_path / "build" / build.library).write_text("planted")
    with pytest.raises(NotMeasuredError, match="is not the one that was built"):
        import_root(tmp_path, tmp_path / "commit", build)
