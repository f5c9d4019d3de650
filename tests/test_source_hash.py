"""One hash for a directory and for a commit of the same sources."""

import subprocess
from pathlib import Path

import pytest

from flashbench import source_hash
from flashbench.revisions import resolve
from flashbench.revisions.export import export


def _git(directory: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    command = ["git", "-C", str(directory), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    _git(tmp_path, "init", "-q")
    (tmp_path / "csrc/cpu").mkdir(parents=True)
    (tmp_path / "csrc/cpu/a.cpp").write_text("int a;\n")
    (tmp_path / "csrc/naïve name.h").write_text("int b;\n")
    (tmp_path / "setup.py").write_text("")
    (tmp_path / "README.md").write_text("x")
    _commit(tmp_path)
    return tmp_path


def _commit(repository: Path) -> str:
    _git(repository, "add", "-A")
    _git(repository, "commit", "-q", "--allow-empty", "-m", "m")
    return _git(repository, "rev-parse", "HEAD")


def test_tree_and_revision_agree(repository: Path) -> None:
    """A clean checkout hashes as the files of its commit do, whatever their names."""
    files = repository / "files"
    export(repository, resolve(repository, "HEAD"), files)
    assert source_hash.of_tree(repository) == source_hash.of_tree(files)


def test_only_sources_count(repository: Path) -> None:
    """A changed README or an object file changes nothing; content, names and absences do."""
    before = source_hash.of_tree(repository)
    (repository / "README.md").write_text("y")
    (repository / "csrc/cpu/a.o").write_bytes(b"\0")
    assert source_hash.of_tree(repository) == before
    (repository / "csrc/cpu/a.cpp").write_text("int a = 1;\n")
    changed = source_hash.of_tree(repository)
    (repository / "csrc/cpu/a.cpp").rename(repository / "csrc/cpu/b.cpp")
    renamed = source_hash.of_tree(repository)
    (repository / "csrc/cpu/b.cpp").unlink()
    assert len({before, changed, renamed, source_hash.of_tree(repository)}) == 4
