"""Ranges of a repository that lacks objects: what can be told is reported, the rest is one line."""

from pathlib import Path

import pytest
from revisions.repository import Repository

from flashbench.bisect.question import range_of
from flashbench.cli import main
from flashbench.errors import Exit, NotMeasuredError
from flashbench.revisions import read
from flashbench.revisions.commits import commits_of, merge_base
from flashbench.revisions.fingerprint import contents_of


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Commits: good, another build, words, another build."""
    repository = Repository(tmp_path / "repository")
    repository.write(
        "pyproject.toml",
        '[tool.flashbench.project]\ncallable = "a.b:c"\n'
        'build = ["false"]\nsources = ["kernel.h"]\n',
    )
    for number, name in enumerate(("kernel.h", "kernel.h", "README.md", "kernel.h")):
        repository.write(name, str(number))
        repository.commit(f"Change {name}")
    repository.git("tag", "good", "HEAD~3")
    return repository


def forget(repository: Repository, name: str) -> None:
    thing = repository.git("rev-parse", name)
    (repository.root / ".git" / "objects" / thing[:2] / thing[2:]).unlink()


def test_commit_whose_tree_is_missing(repository: Repository) -> None:
    """A commit that git cannot read is a build of its own, and the others are reported as ever."""
    whole = range_of(read(repository.root), "good", "HEAD")
    assert (whole.builds(), whole.changes()) == (2, [True, False, True])
    forget(repository, "HEAD~1^{tree}")
    contents_of.cache_clear()
    asked = range_of(read(repository.root), "good", "HEAD")
    assert (asked.builds(), asked.changes()) == (3, [True, True, True])


def test_commit_that_is_missing(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A history with a hole reports git's own message, not that two commits are unrelated."""
    good, bad = repository.git("rev-parse", "good"), repository.git("rev-parse", "HEAD")
    forget(repository, "HEAD~1")
    for ask in (
        lambda: merge_base(repository.root, good, bad),
        lambda: commits_of(repository.root, "good.."),
    ):
        with pytest.raises(NotMeasuredError, match=r"fatal: |error: "):
            ask()
    monkeypatch.chdir(repository.root)
    for command in (
        ["bisect", "--for", "load", "--good", "good"],
        ["build", "good.."],
        ["builds", "good.."],
    ):
        with pytest.raises(SystemExit) as ended:
            main(command)
        (line,) = capsys.readouterr().err.splitlines()
        assert ended.value.code == Exit.NOT_MEASURED, line


def test_commits_without_a_common_one(repository: Repository) -> None:
    """Two roots have no common ancestor."""
    old = repository.git("rev-parse", "HEAD")
    repository.git("checkout", "-q", "--orphan", "other")
    assert merge_base(repository.root, old, repository.commit("Another root")) == ""
