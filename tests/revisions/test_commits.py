"""Commits as git has them, however odd."""

import subprocess
from pathlib import Path

import pytest
from revisions.repository import Repository

from flashbench.history.to_asv import _date
from flashbench.revisions.commits import commits_between, known_commits


@pytest.mark.parametrize("date", ["", " x +0000", f" {'9' * 5000} +0000"])
def test_a_commit_without_a_date_is_one_of_all(tmp_path: Path, date: str) -> None:
    """Where git finds no time in a commit, it is 0, and the others are read as ever."""
    repository = Repository(tmp_path / "repository")
    repository.write("file", "1")
    first = repository.commit("One")
    tree = repository.git("rev-parse", "HEAD^{tree}")
    text = f"tree {tree}\nparent {first}\nauthor A <a@b>{date}\ncommitter A <a@b>{date}\n\nOdd\n"
    made = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--literally", "--stdin"],
        cwd=repository.root,
        input=text.encode(),
        capture_output=True,
        check=True,
    )
    odd = made.stdout.decode().strip()
    found = known_commits(repository.root, [odd, first])
    assert [one.id for one in found] == [first, odd]
    assert found[0].time > 0
    assert [one.subject for one in commits_between(repository.root, first, odd)] == ["Odd"]
    assert found[1].time == 0
    assert _date(repository.root, odd) == 0
