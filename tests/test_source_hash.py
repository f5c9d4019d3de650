"""One hash for a directory and for a revision of the same sources."""

import subprocess
from pathlib import Path

import pytest

from flashbench import source_hash


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
    """A clean checkout hashes as its commit does, whatever the file names."""
    commit = _git(repository, "rev-parse", "HEAD")
    assert source_hash.of_tree(repository) == source_hash.of_revision(repository, commit)


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


@pytest.mark.parametrize("text", ["HEAD", "--help", "0" * 40, "main; true"])
def test_anything_but_a_commit_is_refused(repository: Path, text: str) -> None:
    """Only the full hash of a commit that exists reaches git as a revision."""
    with pytest.raises(ValueError, match="not"):
        source_hash.of_revision(repository, text)
