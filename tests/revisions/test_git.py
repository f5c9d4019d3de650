"""git in untrusted repositories fetches nothing and runs nothing; errors are one line."""

import os
import subprocess
import sys
from pathlib import Path

import forks
import pytest
from revisions.repository import Repository

from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.revisions import git, resolve
from flashbench.revisions.blobs import Blobs
from flashbench.revisions.commits import log
from flashbench.revisions.export import UnreadableError, export
from flashbench.revisions.fingerprint import contents_of
from flashbench.revisions.project import read
from flashbench.revisions.revision import Revision

PROJECT = '[tool.flashbench.project]\ncallable = "toy:f"\nbuild = []\n'
MAIN = (sys.executable, "-m", "flashbench")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path / "repository")
    repository.write("pyproject.toml", PROJECT)
    repository.write("toy.py", "f = 1\n")
    repository.commit("One")
    repository.write("toy.py", "f = 2\n")
    repository.commit("Two é")
    return repository


def flashbench(root: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    cache = {"FLASHBENCH_CACHE": str(root.parent / "cache")}
    return subprocess.run(
        [*MAIN, *arguments],
        cwd=root,
        env=os.environ | cache | environment,
        capture_output=True,
        text=True,
        errors="surrogateescape",
    )


def partial_clone(repository: Repository, filter_: str) -> tuple[Path, Path]:
    """A clone that lacks objects, and the file that fetching them by its remote would make."""
    repository.git("config", "uploadpack.allowFilter", "true")
    root = repository.root.with_name("clone")
    source = f"file://{repository.root}"
    subprocess.run(["git", "clone", "-q", f"--filter={filter_}", source, root], check=True)
    made = root.with_name("made-by-remote")
    for key, value in (
        ("remote.origin.url", f"ext::touch {made}"),
        ("protocol.ext.allow", "always"),
        ("core.sshCommand", f"touch {made}"),
    ):
        subprocess.run(["git", "-C", root, "config", key, value], check=True)
    return root, made


@pytest.mark.parametrize("older_git", [False, True])
@pytest.mark.parametrize("filter_", ["blob:none", "tree:0"])
def test_a_partial_clone_is_not_fetched_into(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, filter_: str, older_git: bool
) -> None:
    """What it lacks is an error that names the fix; no transport of its configuration runs, also
    by a git that does not know GIT_NO_LAZY_FETCH."""
    if older_git:
        monkeypatch.delitem(git._ENVIRONMENT, "GIT_NO_LAZY_FETCH")
    root, made = partial_clone(repository, filter_)
    old = resolve(root, "HEAD~1")
    with pytest.raises(UnreadableError, match="git fetch --refetch --no-filter") as stop:
        export(root, old, root.with_name("tree"))
    assert "\n" not in str(stop.value)
    thing = repository.git("rev-parse", "HEAD~1:toy.py")
    with pytest.raises(git.GitError, match="partial clone"), Blobs(root) as blobs:
        blobs.whole(thing)
    assert not made.exists()
    subprocess.run(["git", "-C", root, "cat-file", "-p", thing], capture_output=True)
    assert made.exists()  # by git itself it does run


def test_the_advice_for_a_partial_clone_works(repository: Repository) -> None:
    """After `git fetch --refetch --no-filter` the commit can be read."""
    root, _ = partial_clone(repository, "blob:none")
    url = f"file://{repository.root}"
    subprocess.run(["git", "-C", root, "config", "remote.origin.url", url], check=True)
    subprocess.run(["git", "-C", root, "fetch", "-q", "--refetch", "--no-filter"], check=True)
    export(root, resolve(root, "HEAD~1"), root.with_name("tree"))
    assert (root.with_name("tree") / "toy.py").read_text() == "f = 1\n"


def test_build_says_what_a_partial_clone_lacks(repository: Repository) -> None:
    """`build` exits 4 with the fix, and runs nothing that the clone's configuration names."""
    root, made = partial_clone(repository, "blob:none")
    done = flashbench(root, "build", "HEAD~1", "--for", "build")
    assert done.returncode == 4
    assert "fetch the rest with: git fetch --refetch --no-filter" in done.stderr
    assert not made.exists()


def test_reading_runs_nothing_of_the_configuration(repository: Repository) -> None:
    """Monitors, hooks, pagers, signatures, diffs: also those of a submodule."""
    made = repository.root.with_name("made")
    run = f"touch {made}; false"
    inner = Repository(repository.root / "inner")
    inner.write("file", "1")
    inner.commit("Inner")
    repository.git("add", "inner")
    repository.commit("A submodule")
    hooks = repository.root.with_name("hooks")
    hooks.mkdir()
    for name in ("post-index-change", "reference-transaction", "fsmonitor-watchman", "pre-auto-gc"):
        (hooks / name).write_text(f"#!/bin/sh\n{run}\n")
        (hooks / name).chmod(0o755)
    for one in (repository, inner):
        for key, value in (
            ("core.fsmonitor", run),
            ("core.hooksPath", str(hooks)),
            ("core.pager", run),
            ("core.editor", run),
            ("core.alternateRefsCommand", run),
            ("core.sshCommand", run),
            ("credential.helper", f"!{run}"),
            ("diff.external", run),
            ("diff.toy.textconv", run),
            ("log.showSignature", "true"),
            ("gpg.program", run),
        ):
            one.git("config", key, value)
        (one.root / ".git" / "info").mkdir(exist_ok=True)
        (one.root / ".git" / "info" / "attributes").write_text("* diff=toy\n")
    inner.write("file", "2")
    repository.write("toy.py", "f = 3\n")
    export(repository.root, resolve(repository.root, "WORKTREE"), repository.root.with_name("one"))
    export(repository.root, resolve(repository.root, "HEAD"), repository.root.with_name("two"))
    contents_of(read(repository.root), repository.git("rev-parse", "HEAD"))
    assert len(log(repository.root, "HEAD")) == 3
    assert not made.exists()


def test_the_output_encoding_of_the_repository_is_not_ours(repository: Repository) -> None:
    """With i18n.logOutputEncoding UTF-16 messages and dates are read all the same."""
    repository.git("config", "i18n.logOutputEncoding", "UTF-16")
    assert log(repository.root, "HEAD")[0].subject == "Two é"
    shown = git.ask(repository.root, "log", "-1", "--format=%at", "HEAD")
    assert shown.strip().isdigit()


def test_the_repository_of_a_hook_is_not_taken_for_another(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIT_DIR, which git sets for hooks, does not follow into other directories."""
    other = Repository(repository.root.with_name("other"))
    head = repository.git("rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(other.root / ".git"))
    assert resolve(repository.root, "HEAD").commit == head


def test_without_git_the_fix_is_said(repository: Repository, monkeypatch) -> None:
    """No git on PATH is one line."""
    monkeypatch.setenv("PATH", str(repository.root))
    with pytest.raises(NotMeasuredError, match="git is not on PATH"):
        git.root_of(repository.root)


def test_too_few_file_descriptors_are_no_missing_git(repository: Repository) -> None:
    """The limit is named, with the fix."""
    command = 'ulimit -n 8; exec "$@"'
    done = subprocess.run(
        ["sh", "-c", command, "sh", *MAIN, "builds"],
        cwd=repository.root,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 4
    assert done.stderr == "flashbench: too many open files; allow more with: ulimit -n 1024\n"


@pytest.mark.parametrize("command", ["builds", "show run.json", "run", "compare a b", "history"])
def test_a_removed_working_directory_is_one_line(tmp_path: Path, command: str) -> None:
    """Every command says that it is gone, and exits 2."""
    (tmp_path / "gone").mkdir()
    done = subprocess.run(
        ["sh", "-c", f'cd "$0" && rmdir "$0" && exec "$@" {command}', tmp_path / "gone", *MAIN],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("flashbench: the working directory cannot be used")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("flag", ["--version", "--help"])
def test_version_and_help_need_no_working_directory(tmp_path: Path, flag: str) -> None:
    """They read nothing there, and print the same as ever."""
    (tmp_path / "gone").mkdir()
    done = subprocess.run(
        ["sh", "-c", f'cd "$0" && rmdir "$0" && exec "$@" {flag}', tmp_path / "gone", *MAIN],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "flashbench" in done.stdout


@pytest.mark.parametrize(
    "command",
    [
        ["compare", "HEAD", ""],
        ["compare", "", "HEAD"],
        ["compare", ""],
        ["history", ""],
        ["build", ""],
        ["publish", "--revision", ""],
        ["bisect", "--good", "", "--for", "build"],
        ["bisect", "--good", "HEAD~1", "--bad", "", "--for", "build"],
        ["build", "--", "--output=made"],
        ["build", "x" * 100_000],
        ["build", "HEAD\nHEAD"],
        ["build", "HEAD:toy.py"],
    ],
)
def test_what_is_no_revision_is_refused(repository: Repository, command: list[str]) -> None:
    """Empty, an option, endless or no commit: exit 2 and one line, nothing is built."""
    cache = {"FLASHBENCH_CACHE": str(repository.root.parent / "cache")}
    done = forks.run(command, repository.root, cache)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert len(done.stderr) < 1000
    assert not (repository.root.parent / "cache").exists()


def test_an_untrusted_owner_is_said_with_the_fix(repository: Repository) -> None:
    """git's own refusal of another user's repository names its setting."""
    done = flashbench(repository.root, "builds", GIT_TEST_ASSUME_DIFFERENT_OWNER="1")
    assert done.returncode == 2
    assert "git config --global --add safe.directory" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_bare_repository_is_refused(repository: Repository) -> None:
    """It has no working tree, so no project."""
    bare = repository.root.with_name("bare.git")
    subprocess.run(["git", "clone", "-q", "--bare", repository.root, bare], check=True)
    with pytest.raises(InvalidInputError, match="must be run in a work tree"):
        git.root_of(bare)


def test_a_shallow_clone_says_how_to_get_the_rest(repository: Repository) -> None:
    """A commit beyond its end is refused with `git fetch --unshallow`."""
    clone = repository.root.with_name("clone")
    source = f"file://{repository.root}"
    subprocess.run(["git", "clone", "-q", "--depth", "1", source, clone], check=True)
    with pytest.raises(InvalidInputError, match="git fetch --unshallow"):
        resolve(clone, "HEAD~1")
    assert isinstance(resolve(clone, "HEAD"), Revision)


@pytest.mark.parametrize("cache", ["a file", "a folder below one", "unwritable"])
@pytest.mark.parametrize(("command", "code"), [("build HEAD --for build", 4), ("builds", 0)])
def test_a_cache_that_cannot_be_used_is_one_line(
    repository: Repository, cache: str, command: str, code: int
) -> None:
    """A file in its place, or a file system that takes nothing, is no traceback."""
    file = repository.root.with_name("file")
    file.write_text("")
    chosen = {"a file": file, "a folder below one": file / "cache", "unwritable": "/proc/cache"}
    environment = {"FLASHBENCH_CACHE": str(chosen[cache])}
    done = forks.run(command.split(), repository.root, environment)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") <= 1


def test_names_and_messages_of_any_script_in_a_plain_locale(repository: Repository) -> None:
    """With LC_ALL=C, no UTF-8 mode or a small encoding, what cannot be shown is escaped."""
    repository.write("é 名.py", "")
    repository.commit("naïve 名")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for encoding in ("", "ascii", "latin-1"):
        done = flashbench(
            repository.root,
            "build",
            "HEAD",
            ".",
            "--for",
            "build",
            **plain,
            PYTHONIOENCODING=encoding,
        )
        assert done.returncode == 0, done.stderr
        assert " na" in done.stdout
    assert "ve \\u540d" in done.stdout


def test_worktrees_and_folders_in_them_are_of_one_project(repository: Repository) -> None:
    """A linked worktree, and a folder of the working tree, build as the repository itself."""
    tree = repository.root.with_name("linked")
    repository.git("worktree", "add", "-q", str(tree), "HEAD~1")
    (tree / "folder").mkdir()
    for place in (tree, tree / "folder"):
        done = flashbench(place, "build", "HEAD", ".", "--for", "build")
        assert done.returncode == 0, done.stderr
        assert "built 2" in done.stdout
