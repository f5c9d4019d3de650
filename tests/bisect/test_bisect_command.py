"""`flashbench bisect` by real compilations: a missing header, an undefined symbol, a slowdown."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import forks
import pytest
from revisions.repository import Repository, fastattn

from flashbench import runfile
from flashbench.errors import Exit

pytestmark = pytest.mark.slow

CASE = ["--case", "b1-h2-q32-d8-fp32-full-cpu", "--samples", "4", "--min-sample", "500us"]
FAST = [*CASE, "--confidence", "70%", "--threads", "1"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """good, a branch that is merged, a header that is missing and comes, a slowdown, words, an
    undefined symbol, a document on top of it."""
    repository = fastattn(tmp_path_factory.mktemp("bisect") / "fastattn")
    repository.git("tag", "good")
    repository.git("checkout", "-q", "-b", "side")
    repository.edit("csrc/config.h", "#pragma once", "#pragma once\n// other words")
    repository.commit("Other words")
    repository.git("checkout", "-q", "main")
    repository.edit("csrc/kernels.cpp", '"config.h"', '"build_config.h"')
    repository.commit("Include what only I have")
    repository.git("tag", "no-header")
    repository.edit("csrc/kernels.cpp", '"build_config.h"', '"config.h"')
    repository.commit("Repair it")
    repository.git("merge", "-q", "--no-ff", "-m", "Merge side", "side")
    repository.edit("csrc/config.h", "DELAY = 0", "DELAY = 200000")
    repository.commit("Wait in each call")
    repository.git("tag", "slower")
    repository.write("README.md", "words\n")
    repository.commit("Words")
    repository.edit("csrc/config.h", "MARKER = 1", "MARKER = 2")
    repository.commit("Another marker")
    repository.git("tag", "slow")
    repository.edit("csrc/config.h", "constexpr long MARKER = 2;", "extern long MARKER;")
    repository.commit("Declare it only")
    repository.git("tag", "undefined")
    repository.write("README.md", "more words\n")
    repository.commit("More words")
    return repository


def environment(project: Repository) -> dict[str, str]:
    return os.environ | {
        "FLASHBENCH_CACHE": str(project.root.parent / "cache"),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }


@pytest.fixture(scope="module")
def bisect(project: Repository):  # type: ignore[no-untyped-def]
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["bisect", "--format", "json", *arguments]
        return forks.run(command, project.root, environment(project))

    return run


def summary(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    found: dict[str, object] = json.loads(done.stdout)["summary"]
    return found


def test_last_that_builds_and_loads(bisect, project: Repository) -> None:  # type: ignore[no-untyped-def]
    """The header that is missing, and the symbol, are found with their reason; what was broken and
    repaired before hides nothing; the repository is as it was."""
    before = project.state()
    done = bisect("--good", "good", "--bad", "no-header", "--for", "build")
    assert done.returncode == Exit.REGRESSION, done.stderr
    found = summary(done)
    assert found["last_working"] == project.git("rev-parse", "good")
    assert found["culprit"] == project.git("rev-parse", "no-header")
    assert "missing header: csrc/kernels.cpp" in str(found["answer"])
    assert json.loads(done.stdout)["rows"][0]["subject"] == "A kernel"
    done = bisect("--good", "good", "--for", "load", "-j", "2")
    assert done.returncode == Exit.REGRESSION, done.stderr
    found = summary(done)
    assert found["last_working"] == project.git("rev-parse", "slow")
    assert found["culprit"] == project.git("rev-parse", "undefined")
    assert "undefined symbol" in str(found["answer"])
    assert project.state() == before


SPEED = ["--good", "good", "--bad", "slow", "--for", "speed", *FAST]


def test_slowdown_is_found(bisect, project: Repository) -> None:  # type: ignore[no-untyped-def]
    """The commit that waits is named, past one that does not build, in a history with a merge; a
    resumed bisection measures nothing again. Builds are made several at once."""
    done = bisect(*SPEED, "-j", "2")
    assert done.returncode == Exit.REGRESSION, done.stderr
    found = summary(done)
    assert found["culprit"] == project.git("rev-parse", "slower")
    assert float(str(found["probability"])) > 0.7
    assert float(str(found["slowdown"])) > 0.2
    assert re.search(r"plan: .* about [0-9.]+ device seconds \([0-9.]+ to [0-9.]+\)", done.stderr)
    assert "cost: " in done.stderr
    again = bisect(*SPEED, "--format", "text")
    assert again.returncode == Exit.REGRESSION, again.stderr
    assert f"FOUND: {str(found['culprit'])[:12]} made" in again.stdout
    again = bisect(*SPEED, "--resume")
    assert summary(again)["culprit"] == found["culprit"]
    assert summary(again)["device_seconds"] == 0


def test_no_change_costs_nothing(bisect) -> None:  # type: ignore[no-untyped-def]
    """If no commit changes the measured code, there is no regression and nothing is measured."""
    done = bisect("--good", "slower", "--bad", "slower~0", "--for", "speed", *FAST)
    assert done.returncode == Exit.USAGE
    done = bisect("--good", "undefined", "--for", "speed", *FAST)
    assert done.returncode == Exit.PASS, done.stderr
    assert "no regression in this range" in str(summary(done)["answer"])


def test_what_cannot_be_told_is_one_line(bisect) -> None:  # type: ignore[no-untyped-def]
    """An end that fails earlier, ends in no order, and flags that do not go together."""
    done = bisect("--good", "good", "--bad", "no-header", "--for", "load")
    assert done.returncode == Exit.NOT_MEASURED
    assert "missing header" in done.stderr.splitlines()[-1]
    done = bisect("--good", "no-header", "--bad", "slow", "--for", "build")
    assert done.returncode == Exit.NOT_MEASURED
    done = bisect("--good", "slow", "--bad", "good", "--for", "build")
    assert done.returncode == Exit.USAGE
    assert "is not an ancestor" in done.stderr
    done = bisect("--good", "side", "--bad", "no-header", "--for", "build")
    assert "name their common ancestor" in done.stderr
    done = bisect("--good", "good", "--for", "build", "--samples", "3")
    assert done.returncode == Exit.USAGE
    done = bisect("--good", "good", "--for", "speed", "--case", "b1-q2")
    assert done.returncode == Exit.USAGE
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.thorough
def test_second_bisection_and_interrupt(bisect, project: Repository) -> None:  # type: ignore[no-untyped-def]
    """A second bisection like one that runs is one line that names its process, and takes nothing
    from it. Ctrl-C in the launches ends with exit code 4 and the command that resumes them."""
    ask = ["--good", "good", "--bad", "slow", "--for", "speed", *CASE, "--seed", "7"]
    command = [sys.executable, "-m", "flashbench", "bisect", *ask]
    process = subprocess.Popen(
        command, cwd=project.root, env=environment(project), stderr=subprocess.PIPE, text=True
    )
    kept = project.root.parent / "cache" / "builds" / "bisect"
    known = set(kept.glob("*/*.json"))

    def launches() -> int:
        assert process.poll() is None  # in the middle of its work
        files = set(kept.glob("*/*.json")) - known
        return sum(len(runfile.read(file).launches) for file in files)

    while not launches():
        time.sleep(0.01)
    for force in ([], ["--force"]):
        second = bisect(*ask, *force)
        assert second.returncode == Exit.NOT_MEASURED
        last = second.stderr.splitlines()[-1]
        assert f"process {process.pid} since " in last
        assert "is doing the same bisection; wait for it" in last
    before = launches()
    while launches() <= before:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == Exit.NOT_MEASURED
    assert "interrupted; resume with: flashbench bisect --good good --bad slow" in errors
    ends = [project.git("rev-parse", f"{name}^{{commit}}") for name in ("good", "slow")]
    assert errors.strip().endswith("--seed 7 --good {} --bad {}".format(*ends))
