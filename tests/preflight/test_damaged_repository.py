"""A damaged repository is named, and the proposed command mends it."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from preflight.kernel_project import add_submodule, kernel_project
from preflight.proposed import findings_of as _found
from preflight.proposed import mend, shell
from revisions.repository import Repository


def _without(*names: str) -> Callable[[Path], None]:
    def damage(place: Path) -> None:
        for name in names:
            path = place / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return damage


def _writes(name: str, text: str) -> Callable[[Path], None]:
    return lambda place: (place / name).write_text(text) and None


def _object(place: Path, revision: str) -> Path:
    asked = ["git", "-C", str(place.parent), "rev-parse", revision]
    name = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    return place / "objects" / name[:2] / name[2:]


def _loses(revision: str) -> Callable[[Path], None]:
    return lambda place: _object(place, revision).unlink()


def _empties(revision: str) -> Callable[[Path], None]:
    def damage(place: Path) -> None:
        path = _object(place, revision)
        path.chmod(0o644)
        path.write_bytes(b"")

    return damage


def _elsewhere(place: Path) -> None:
    shutil.rmtree(place)
    place.write_text("gitdir: /opt/kernels/.git/worktrees/flash\n")


def _index(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda place: (
        (place / "index").write_bytes(change((place / "index").read_bytes())) and None
    )


_CHECKSUM = "the index is damaged: its checksum does not fit"
DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "HEAD": (_without("HEAD"), "HEAD names no branch"),
    "empty HEAD": (_writes("HEAD", ""), "HEAD names no branch"),
    "objects": (_without("objects"), "has lost all its objects"),
    "refs": (_without("refs"), "has no folder refs"),
    "branch": (_writes("refs/heads/main", "0" * 39 + "\n"), "HEAD names no commit"),
    "commit": (_writes("refs/heads/main", "1" * 40 + "\n"), "HEAD names no commit"),
    "config": (_writes("config", "[core\n"), "bad config line 1"),
    "tree": (_loses("HEAD^{tree}"), "not a tree object"),
    "blob": (_loses("HEAD:csrc/combine.cpp"), "the contents of csrc/combine.cpp are lost"),
    "empty blob": (_empties("HEAD:csrc/combine.cpp"), "csrc/combine.cpp"),
    "empty commit": (_empties("HEAD"), "HEAD"),
    "no index": (_without("index"), "the index is empty, and HEAD has"),
    "index of other words": (_index(lambda text: b"no index at all" + text), "begin as one"),
    **{
        f"index cut to {size}": (_index(lambda text, size=size: text[:size]), _CHECKSUM)
        for size in (50, 100, 300)
    },
    "index with zeros behind": (_index(lambda text: text + bytes(1000)), _CHECKSUM),
    "index with zeros inside": (
        _index(lambda text: text[:60] + bytes(20) + text[80:]),
        _CHECKSUM,
    ),
    "worktree": (_elsewhere, "names /opt/kernels/.git/worktrees/flash, which is no repository"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named_and_mended(tmp_path: Path, name: str) -> None:
    """One error; after its command nothing is found, here or in a clone."""
    project, (damage, said) = kernel_project(tmp_path / "flash"), DAMAGE[name]
    damage(project.root / ".git")
    (finding,) = _found(project.root)
    assert (finding.check, said in finding.found) == ("repository", True), finding
    mend(project.root, finding.fix, tmp_path / "clone")


@pytest.mark.parametrize("text", [None, b"DIRC"])
def test_lost_index_beside_a_submodule(tmp_path: Path, text: bytes | None) -> None:
    """The headers of a submodule that was not fetched are still its own, in a linked tree, too."""
    project = kernel_project(tmp_path / "flash")
    add_submodule(project, "include/tile.h", "#pragma once\n")
    project.edit("csrc/forward.h", "#pragma once", '#pragma once\n#include "tile.h"')
    project.edit("setup.py", "sources=", 'include_dirs=["third_party/tiles/include"], sources=')
    project.commit("Include a tile")
    linked = tmp_path / "linked"
    project.git("worktree", "add", "-q", str(linked))
    place = Path(project.git("-C", str(linked), "rev-parse", "--absolute-git-dir")) / "index"
    place.unlink()
    if text is not None:
        place.write_bytes(text)
    (finding,) = _found(linked)
    assert (finding.check, "index" in finding.found) == ("repository", True), finding
    shell(linked, finding.fix)
    assert [one.check for one in _found(linked)] == ["submodules"]


def test_index_without_a_checksum(tmp_path: Path) -> None:
    """index.skipHash writes zeros in its place."""
    root = kernel_project(tmp_path / "flash").root
    index = root / ".git/index"
    index.write_bytes(index.read_bytes()[:-20] + bytes(20))
    assert _found(root) == []


def test_lost_objects_come_from_the_remote(tmp_path: Path) -> None:
    """With a remote, its history comes back; the working tree keeps what was not committed."""
    origin = kernel_project(tmp_path / "origin")
    root = tmp_path / "flash"
    subprocess.run(["git", "clone", "-q", str(origin.root), str(root)], check=True)
    shutil.rmtree(root / ".git/objects")
    (root / "csrc/combine.cpp").write_text((root / "csrc/combine.cpp").read_text() + "// later\n")
    (finding,) = _found(root)
    subprocess.run(["sh", "-c", finding.fix], cwd=root, check=True, capture_output=True)
    assert _found(root) == []
    project = object.__new__(Repository)
    project.root = root
    assert project.git("log", "--format=%s") == "A kernel"
    assert project.git("status", "--short") == "M csrc/combine.cpp"
