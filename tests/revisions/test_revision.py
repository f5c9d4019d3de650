"""Revisions are verified by git, and no user text becomes an option or a command."""

from pathlib import Path

import pytest
from revisions.repository import Repository

from flashbench.errors import Exit, InvalidInputError
from flashbench.revisions import WORKTREE, resolve


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path / "repository")
    repository.write("file", "1")
    repository.commit("One")
    repository.git("tag", "-a", "v1", "-m", "annotated")
    repository.git("branch", "feature/fast")
    repository.write("file", "2")
    repository.commit("Two")
    return repository


def test_every_name_of_a_commit_is_its_hash(repository: Repository) -> None:
    """Branches, tags, abbreviations and expressions stand for the commit they name."""
    first = repository.git("rev-parse", "HEAD~1")
    for text in ("v1", "feature/fast", "HEAD~1", "HEAD^", first, first[:10], "v1^{commit}"):
        revision = resolve(repository.root, text)
        assert (revision.commit, revision.worktree) == (first, False)
    assert resolve(repository.root, "v1").label == f"v1 ({first[:12]})"
    assert resolve(repository.root, first).label == first[:12]


def test_working_tree_is_a_word_of_its_own(repository: Repository) -> None:
    """WORKTREE is the working tree on HEAD, with or without a first commit."""
    head = repository.git("rev-parse", "HEAD")
    revision = resolve(repository.root, WORKTREE)
    assert (revision.commit, revision.worktree) == (head, True)
    empty = Repository(repository.root.parent / "empty")
    assert resolve(empty.root, WORKTREE).commit == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "--",
        "-h",
        "--help",
        "--output=stolen",
        "--upload-pack=touch stolen",
        "nosuch",
        "HEAD~99",
        "HEAD:file",
        "HEAD..feature/fast",
        "^HEAD",
        "@{upstream}",
        ":/nothing says this",
        "$(touch stolen)",
        "`touch stolen`",
        "; touch stolen",
        "HEAD\n--output=stolen",
        "HEAD\0",
        "v1 HEAD",
        "../../etc/passwd",
        "0" * 40,
        "\udcff",
        "*",
        "x" * 100_000,
    ],
)
def test_what_is_no_commit_is_refused(
    repository: Repository, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options, ranges, files, shell and nonsense are one line and exit code 2; nothing runs."""
    monkeypatch.chdir(repository.root)
    before = repository.state()
    with pytest.raises(InvalidInputError, match="WORKTREE") as refused:
        resolve(repository.root, text)
    assert refused.value.exit_code == Exit.USAGE
    assert "\n" not in str(refused.value)
    assert repository.state() == before
