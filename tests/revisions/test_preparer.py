"""`flashbench build` and `flashbench builds`: ranges of commits, by real builds."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import forks
import pytest
from revisions.repository import Repository, fastattn

from flashbench.builds import running
from flashbench.errors import Exit, InvalidInputError
from flashbench.revisions import WORKTREE, ledger, read, resolve
from flashbench.revisions.built import seconds_of
from flashbench.revisions.commits import commits_between, commits_of, known_commits
from flashbench.revisions.prepare import prepare
from flashbench.revisions.preparer import Preparer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Commits: good, a unit that is not compiled, repaired, wrong, right, documentation, Python."""
    root = tmp_path_factory.mktemp("many")
    repository = fastattn(root / "fastattn")
    repository.git("tag", "good")
    repository.write("csrc/launch.h", "template <class T> float launch(T x);\n")
    repository.write(
        "csrc/launch_bf16.cpp",
        '#include "launch.h"\ntemplate <class T> float launch(T x) { return x; }\n'
        "template float launch<float>(float);\n",
    )
    repository.edit("csrc/kernels.cpp", '"config.h"', '"config.h"\n#include "launch.h"')
    repository.edit("csrc/kernels.cpp", "result[i] = 0;", "result[i] = launch<float>(0.0f);")
    repository.commit("Launch <b>what</b> is not compiled")
    repository.git("revert", "--no-edit", "HEAD")
    repository.edit("csrc/config.h", "SCALE = 1.0f", "SCALE = 1.1f")
    repository.commit("Scale as one should not")
    repository.git("revert", "--no-edit", "HEAD")
    repository.write("line\nbreak.md", "# Words\n")
    repository.commit("A document of a strange name")
    repository.edit("src/fastattn/api.py", "def marker", "# said\ndef marker")
    repository.commit("Say something in Python")
    return repository


@pytest.fixture(scope="module")
def flashbench(project: Repository):  # type: ignore[no-untyped-def]
    environment = {"FLASHBENCH_CACHE": str(project.root.parent / "cache")}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return forks.run(arguments, project.root, environment)

    return run


def require_no_process_of(cache: Path) -> None:
    """All that was started with this cache in its environment is gone, at once or nearly so."""
    mark = b"FLASHBENCH_CACHE=" + os.fsencode(cache)
    for _ in range(100):
        alive = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it ended while it was looked at
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    alive.append((process / "cmdline").read_bytes())
        if not alive:
            return
        time.sleep(0.1)
    raise AssertionError(alive)


def rows(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, object]]:
    return {row["subject"]: row for row in json.loads(done.stdout)["rows"]}


def test_range_is_built_once_with_reasons(flashbench, project: Repository) -> None:  # type: ignore[no-untyped-def]
    """Each commit has its status; equal sources are built once; nothing is done a second time;
    `builds` tells the same without building, and the repository is as it was."""
    before = project.state()
    first = flashbench("build", "good", "good..", "-j", "2", "--format", "json")
    assert first.returncode == Exit.REGRESSION, first.stderr
    found = rows(first)
    statuses = {subject: row["status"] for subject, row in found.items()}
    left_out = "Launch <b>what</b> is not compiled"
    assert statuses.pop(left_out) == "undefined symbol"
    assert statuses.pop("Scale as one should not") == "wrong result"
    assert set(statuses.values()) == {"built"}
    reason = str(found[left_out]["reason"])
    assert "undefined symbol: float launch<float>(float)" in reason
    assert "csrc/launch_bf16.cpp should hold it, and was not compiled" in reason
    assert len({row["build"] for row in found.values()}) == 3
    assert "3 made now" in first.stderr
    again = flashbench("build", "good", "good..", "--format", "json")
    assert again.returncode == Exit.REGRESSION
    assert "0 made now" in again.stderr
    listed = flashbench("builds", "--format", "json")
    assert listed.returncode == Exit.PASS

    def told(done: subprocess.CompletedProcess[str]) -> dict[str, tuple[object, object]]:
        return {subject: (row["status"], row["reason"]) for subject, row in rows(done).items()}

    assert told(again) == told(listed) == told(first)
    failed = flashbench("builds", "--failed", "--format", "markdown")
    assert "Launch &lt;b&gt;what" in failed.stdout
    assert "A kernel" not in failed.stdout
    assert project.state() == before


def test_failure_is_tried_again_on_request(flashbench) -> None:  # type: ignore[no-untyped-def]
    """With --retry what does not work is tried again, and what works is not."""
    done = flashbench("build", "good", "HEAD~5", "HEAD~3")
    assert len(done.stderr.splitlines()) == 1
    done = flashbench("build", "good", "HEAD~5", "HEAD~3", "--retry")
    assert done.returncode == Exit.REGRESSION  # a wrong result is more than what does not build
    assert flashbench("build", "HEAD~5").returncode == Exit.NOT_MEASURED
    assert len(done.stderr.splitlines()) == 3
    assert "undefined symbol" in done.stderr
    assert "wrong result" in done.stderr


def test_working_tree_is_the_default(flashbench, project: Repository) -> None:  # type: ignore[no-untyped-def]
    """Without a revision it is the working tree that is built, which no list of commits has."""
    done = flashbench("build", "--format", "json")
    assert done.returncode == Exit.PASS, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["commit"], row["status"]) == (WORKTREE, "built")


@pytest.mark.parametrize("text", ["good...HEAD", "..", "..HEAD", "HEAD..good", "a..b", "--x..HEAD"])
def test_ranges_that_are_none_are_refused(project: Repository, text: str) -> None:
    """A range that git does not know, that is empty or of another form is one line."""
    with pytest.raises(InvalidInputError):
        commits_of(project.root, text)


def test_ranges_have_parents_first(tmp_path: Path) -> None:
    """A range leaves its old end out; of merges, all sides or the first parent's alone."""
    repository = Repository(tmp_path / "merged")
    repository.write("file", "1")
    old = repository.commit("One")
    repository.git("checkout", "-q", "-b", "side")
    repository.write("other", "2")
    side = repository.commit("Side\x1b[31m")
    repository.git("checkout", "-q", "main")
    repository.write("file", "2")
    main = repository.commit("Two")
    repository.git("merge", "-q", "--no-ff", "-m", "Merge", "side")
    merge = repository.git("rev-parse", "HEAD")
    commits = commits_between(repository.root, old, merge)
    assert {commit.id for commit in commits} == {side, main, merge}
    assert commits[-1].parents == (main, side)
    assert {"Side\x1b[31m", "Two", "Merge"} == {commit.subject for commit in commits}
    first = commits_between(repository.root, old, merge, first_parent=True)
    assert [commit.id for commit in first] == [main, merge]


def test_commits_of_one_second_are_in_order(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """Commits that a rebase made at once are listed parents first."""
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z")
    repository = Repository(tmp_path / "rebased")
    made = []
    for number in range(12):
        repository.write("number", str(number))
        made.append(repository.commit(str(number)))
    assert [commit.id for commit in known_commits(repository.root, sorted(made))] == made


def test_hung_revision_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that never ends is a time-out, which is kept, and leaves no process behind."""
    monkeypatch.setenv("FLASHBENCH_CACHE", str(tmp_path / "cache"))
    repository = fastattn(tmp_path / "fastattn", by_setuptools=True)
    hang = "import subprocess; subprocess.run(['sleep', '1000'], start_new_session=True)"
    repository.edit("setup.py", "from setuptools", f"{hang}\nfrom setuptools")
    repository.commit("Hang")
    settings = read(repository.root)
    hung = prepare(settings, resolve(settings.repository, "HEAD"), tmp_path / "cache", timeout=1)
    assert (hung.status, hung.build.status) == ("timeout", "timeout")
    assert "longer than 1 s" in hung.reason
    tried = ledger.everything(tmp_path / "cache", settings.repository)
    assert hung.revision.commit in {one.commit for one in tried}
    require_no_process_of(tmp_path / "cache")


def test_hung_import_has_the_time_of_a_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_torch: None
) -> None:
    """An import that hangs is stopped after the time limit of a build, where that is shorter than
    its own, and leaves no process behind; with more time it is tried again, with less it is
    known."""
    monkeypatch.setenv("FLASHBENCH_CACHE", str(tmp_path / "cache"))
    repository = fastattn(tmp_path / "fastattn")
    text = (repository.root / "src/fastattn/api.py").read_text()
    repository.write("src/fastattn/api.py", f"import time\ntime.sleep(1000)\n{text}")
    repository.commit("Hang when imported")
    settings = read(repository.root)
    head = resolve(settings.repository, "HEAD")

    def tried(seconds: float) -> tuple[str, bool]:
        """The check, not the build, is what its account counts."""
        with Preparer(settings, tmp_path / "cache", timeout=seconds) as preparer:
            (built,) = preparer.prepare([head], "load")
        assert (built.status, built.build.status) == ("timeout", "built")
        assert (seconds_of([built]) == 0) if built.reused else (seconds_of([built]) >= seconds)
        return built.reason, built.reused

    prepare(settings, head, tmp_path / "cache", stage="build")  # however long that takes
    assert tried(0.5) == ("loading took longer than 0.5 s", False)
    assert tried(0.2) == ("loading took longer than 0.5 s", True)
    assert tried(0.8) == ("loading took longer than 0.8 s", False)
    require_no_process_of(tmp_path / "cache")


def test_two_at_once_and_kills_leave_the_cache_sound(project: Repository, tmp_path: Path) -> None:
    """Two builds of one range on one cache, killed again and again, leave what the next one uses;
    no process outlives them."""
    environment = os.environ | {
        "FLASHBENCH_CACHE": str(tmp_path),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    command = [sys.executable, "-m", "flashbench", "build", "good", "HEAD~5", "HEAD~3", "-j", "2"]
    logs = ".scratch.*/files/build/log.txt"
    for number in (signal.SIGKILL, signal.SIGINT):
        before = set(tmp_path.glob(f"builds/{logs}"))
        both = [
            subprocess.Popen(
                command,
                cwd=project.root,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for _ in range(2)
        ]
        while not set(tmp_path.glob(f"builds/{logs}")) - before and both[0].poll() is None:
            time.sleep(0.01)
        assert [process.poll() for process in both] == [None, None]  # in the middle of a build
        for process in both:
            process.send_signal(number)
        for process in both:
            process.wait()
        require_no_process_of(tmp_path)
    done = forks.run(command[3:], project.root, environment)
    assert done.returncode == Exit.REGRESSION
    assert "built 1, undefined symbol 1, wrong result 1" in done.stdout
    left = [path.name for path in (tmp_path / "builds").glob(".*") if path.is_dir()]
    assert left == []


def test_stopped_builds_are_no_answer(project: Repository, tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """What is ended from outside is not kept as a failure of the commit."""
    settings = read(project.root)
    revision = resolve(settings.repository, "good")
    stopping = running._stopping
    monkeypatch.setattr(running, "_stopping", type(stopping)())
    running.stop_all()
    with pytest.raises(running.StoppedError), Preparer(settings, tmp_path) as preparer:
        preparer.prepare([revision], "build")
    monkeypatch.undo()
    with Preparer(settings, tmp_path) as preparer:
        (built,) = preparer.prepare([revision], "build")
    assert (built.status, built.build.reused) == ("built", False)
