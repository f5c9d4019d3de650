"""What revisions compile when they are imported or called is theirs, and is kept."""

import os
import time
from pathlib import Path

import pytest
from revisions.repository import Prepared, Repository

from flashbench.revisions import jit

# Compiles as torch does: into a folder of this name, behind a lock.
MODULE = """\
import os, pathlib, time

folder = pathlib.Path(os.environ["TORCH_EXTENSIONS_DIR"]) / "attn"
if not (folder / "build.ninja").exists():
    folder.mkdir(parents=True)
    (folder / "lock").touch()
    time.sleep(SECONDS)
    source = pathlib.Path(__file__).with_name("csrc") / "attn.cu"
    (folder / "attn.so").write_text(source.read_text())
    (folder / "build.ninja").touch()
    (folder / "lock").unlink()
attention = len
"""
SETTINGS = """\
[tool.flashbench.project]
callable = "mine:attention"
build = []
sources = ["csrc"]
"""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    found = Repository(tmp_path / "jit")
    found.write("pyproject.toml", SETTINGS)
    found.write("mine.py", MODULE.replace("SECONDS", "0"))
    found.write("csrc/attn.cu", "one")
    found.write("other/notes.txt", "not code")
    found.commit("One")
    return found


def extension(import_root: Path) -> Path:
    return import_root.parent / "jit" / "torch_extensions" / "attn" / "attn.so"


def test_revisions_keep_what_they_compile(
    repository: Repository, prepared: Prepared, tmp_path: Path, without_torch: None
) -> None:
    """A project without a build has its sources beside its modules, for each revision apart, and
    other folders not at all."""
    one = prepared(repository, tmp_path / "cache").require()
    repository.write("csrc/attn.cu", "two")
    two = prepared(repository, tmp_path / "cache", "WORKTREE").require()
    assert (extension(one).read_text(), extension(two).read_text()) == ("one", "two")
    assert not (one / "other").exists()
    assert jit.is_compiled_in_place(one)
    assert prepared(repository, tmp_path / "cache").reused


def test_each_launch_has_libraries_of_its_own(
    repository: Repository, prepared: Prepared, tmp_path: Path, without_torch: None
) -> None:
    """A new file with the old times, so that nothing is compiled again; locks of dead processes do
    not stop it."""
    root = prepared(repository, tmp_path / "cache").require()
    before = extension(root).stat()
    (extension(root).parent / "lock").touch()
    with jit.alone(root):
        after = extension(root).stat()
        assert not jit.is_compiling(root)
    assert (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size)
    assert after.st_ino != before.st_ino
    assert sorted(path.name for path in extension(root).parent.iterdir()) == [
        "attn.so",
        "build.ninja",
    ]


def test_compiling_takes_as_long_as_a_build_may(
    repository: Repository, tmp_path: Path, without_torch: None
) -> None:
    """The limit of an import does not end it while torch holds an extension's lock."""
    from flashbench.revisions.check import Checker

    root = tmp_path / "site"
    root.mkdir()
    (root / "mine.py").write_text(MODULE.replace("SECONDS", "4"))
    (root / "csrc").mkdir()
    (root / "csrc/attn.cu").write_text("slow")
    began = time.monotonic()
    with Checker(timeout=1.5, compiling=2.5) as checker:
        short = checker.loads(root, "mine:attention", tmp_path / "log.txt")
    assert short.status == "timeout"
    jit.release(root)
    (extension(root).parent).rmdir()
    with Checker(timeout=1.5, compiling=30) as checker:
        assert checker.loads(root, "mine:attention", tmp_path / "log.txt").status == "built"
    assert time.monotonic() - began > 4
    assert "TORCH_EXTENSIONS_DIR" not in os.environ
