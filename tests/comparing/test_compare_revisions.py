"""`flashbench compare REV_A REV_B` on a project that is not ours, by real builds and launches."""

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import forks
import pytest
from revisions.repository import Repository, fastattn

import flashbench
from flashbench import runfile
from flashbench.cost.spent import Spent
from flashbench.errors import Exit

pytestmark = pytest.mark.slow

FAST = ["--dtype", "fp32", "--causal", "full", "--samples", "8", "--min-sample", "0.2ms"]
SHAPES = ["--shape", "1,1,16,8", "--shape", "1,2,32,8"]
# Revision noisy-slower waits where there are many planes.
UNCHANGED, SLOWER = "b1-h1-q16-d8-fp32-full-cpu", "b1-h2-q32-d8-fp32-full-cpu"

# One of the paired processes waits, in the next launch the other: no luck makes this a verdict.
EVERY_OTHER_LOAD = """#include "config.h"
static const long LATE = [] {{
    std::FILE* loads = std::fopen(SIDE ? "{root}/loads-1" : "{root}/loads-0", "a");
    std::fputc('.', loads);
    const long count = std::ftell(loads);
    std::fclose(loads);
    return (count + SIDE) % 2 * 200000;
}}();"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Commits: good, the same with another marker, far slower, wrong, and one that does not
    compile; aside, two of which each is slower in every other launch where there are few planes,
    and one in all where there are many. The cache is shared, so each is built once."""
    root = tmp_path_factory.mktemp("revisions")
    repository = fastattn(root / "fastattn")
    repository.git("tag", "good")
    repository.write("NOTES", "nothing that is built\n")
    repository.edit("csrc/config.h", "MARKER = 1", "MARKER = 2")
    repository.commit("Do the same in another library")
    repository.git("tag", "same")
    repository.edit("csrc/config.h", "DELAY = 0", "DELAY = 200000")
    repository.commit("Wait in each call")
    repository.git("tag", "slower")
    repository.edit("csrc/config.h", "SCALE = 1.0f", "SCALE = 1.5f")
    repository.commit("Scale as one should not")
    repository.git("tag", "wrong")
    repository.edit("csrc/config.h", "#pragma once", '#pragma once\n#include "local_only.h"')
    repository.commit("Include what only I have")
    repository.git("tag", "unbuildable")
    repository.git("checkout", "-q", "-b", "aside", "good")
    turns = "const long turns = planes > 1 ? DELAY : LATE;\n    for (volatile"
    repository.edit("csrc/kernels.cpp", "for (volatile", turns)
    repository.edit("csrc/kernels.cpp", "turn < DELAY", "turn < turns")
    text = (repository.root / "csrc/kernels.cpp").read_text()
    repository.write("csrc/kernels.cpp", f"#include <cstdio>\n{text}")
    repository.edit("csrc/kernels.cpp", '#include "config.h"', EVERY_OTHER_LOAD.format(root=root))
    repository.edit("csrc/config.h", "MARKER = 1;", "MARKER = 1, SIDE = 0;")
    repository.commit("Wait in every other process, where there are few planes")
    repository.git("tag", "noisy")
    repository.edit("csrc/config.h", "DELAY = 0", "DELAY = 200000")
    repository.edit("csrc/config.h", "SIDE = 0", "SIDE = 1")
    repository.commit("Wait in the others, and as long where there are many planes")
    repository.git("tag", "noisy-slower")
    repository.git("checkout", "-q", "main")
    return repository


@pytest.fixture
def compare(project: Repository):  # type: ignore[no-untyped-def]
    """Run `flashbench compare` in the project."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return forks.run(["compare", *arguments], project.root, environment(project))

    return run


def environment(project: Repository) -> dict[str, str]:
    cache, profile = project.root.parent / "cache", project.root.parent / "machine.json"
    here = str(Path(__file__).parents[2])
    return os.environ | {
        "FLASHBENCH_CACHE": str(cache),
        "FLASHBENCH_MACHINE": str(profile),
        "PYTHONPATH": here,
    }


def verdicts(text: str) -> dict[str, str]:
    return {row["case"]: row["verdict"] for row in json.loads(text)["rows"]}


def test_slower_commit_is_found_and_stops_early(compare, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """A commit slower on every case is SLOWER, exit code 1, in fewer launches than allowed."""
    file = tmp_path / "run.json"
    done = compare(
        "good", "slower", *SHAPES, *FAST, "--launches", "30", "--confidence", "80%",
        "--format", "json", "--run-file", str(file),
    )  # fmt: skip
    assert done.returncode == Exit.REGRESSION, done.stderr
    assert set(verdicts(done.stdout).values()) == {"SLOWER"}
    run = runfile.read(file)
    assert len(run.launches) < 30
    assert run.pair is not None
    own = [c.build.revision for c in run.candidates if not c.baseline]
    assert own == ["good", "slower"]
    again = compare(str(file), "--format", "json")
    assert again.returncode == Exit.REGRESSION
    assert again.stdout == done.stdout


def test_decided_case_leaves_while_the_other_goes_on(compare, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """A case that is slower is measured no more once that is known; the other, whose launches
    differ by far more than the tolerance, is not called so, and is measured in every launch."""
    file = tmp_path / "run.json"
    done = compare(
        "noisy", "noisy-slower", *SHAPES, *FAST, "--launches", "8", "--confidence", "80%",
        "--format", "json", "--run-file", str(file),
    )  # fmt: skip
    assert done.returncode == Exit.REGRESSION, done.stderr
    assert verdicts(done.stdout) == {UNCHANGED: "UNDECIDED", SLOWER: "SLOWER"}
    run = runfile.read(file)
    measured = Counter(result.case for launch in run.launches for result in launch.results)
    counts = {case: count // len(run.candidates) for case, count in measured.items()}
    assert counts[UNCHANGED] == len(run.launches) == 8
    assert counts[SLOWER] < 8
    rows = {row["case"]: row["launches"] for row in json.loads(done.stdout)["rows"]}
    assert rows == counts


def test_wrong_commit_is_a_regression(compare, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """A wrong result in B is exit code 1 and has no speed; in A it is exit code 4, reported as
    A's."""
    flags = [*SHAPES[:2], *FAST, "--launches", "2", "--run-file", str(tmp_path / "run.json")]
    done = compare("good", "wrong", *flags)
    assert done.returncode == Exit.REGRESSION
    assert "WRONG" in done.stdout
    done = compare("wrong", "good", *flags, "--force")
    assert done.returncode == Exit.NOT_MEASURED
    assert "A itself is wrong" in done.stdout


def test_commit_that_does_not_build_is_never_a_pass(compare, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Whichever side it is on: one line with the reason, exit code 4, nothing measured."""
    file = tmp_path / "run.json"
    for a, b, side in (("good", "unbuildable", "B"), ("unbuildable", "good", "A")):
        done = compare(a, b, *FAST, "--run-file", str(file))
        assert done.returncode == Exit.NOT_MEASURED
        last = done.stderr.strip().splitlines()[-1]
        assert f"{side} = unbuildable" in last
        assert "missing header" in last
        assert "local_only.h" in last
        assert not file.exists()
    for form, words in (
        ("github", "::error title=flashbench%3A Not measured"),
        ("junit", '<error message="NOT MEASURED'),
        ("markdown", "Not measured: B = unbuildable"),
        ("json", '"verdict": "NOT MEASURED"'),
    ):
        done = compare("good", "unbuildable", *FAST, "--format", form)
        assert done.returncode == Exit.NOT_MEASURED
        assert words in done.stdout
        assert "only.h" in done.stdout


@pytest.fixture
def words(project: Repository) -> Iterator[Repository]:
    """The project with a branch of commits that change words alone: of a file that is no part of
    the build, then of the Python that is imported."""
    project.git("checkout", "-q", "-b", "words", "good")
    project.write("README.md", "other words\n")
    project.commit("Document it otherwise")
    project.git("tag", "documented")
    project.edit("src/fastattn/api.py", "return ", "return  ")
    project.commit("Space the Python otherwise")
    project.git("tag", "spaced")
    yield project
    project.git("checkout", "-q", "main")
    project.git("branch", "-q", "-D", "words")
    project.git("tag", "-d", "documented", "spaced")


def test_same_build_is_said_and_not_measured(compare, words: Repository, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """A commit against itself, one that changed documents alone, and a clean working tree: exit
    code 0, nothing measured, in every format."""
    file = tmp_path / "run.json"
    words.git("checkout", "-q", "documented")
    for pair in (["good", "good"], ["good", "documented"], ["good"]):
        done = compare(*pair, *FAST, "--run-file", str(file))
        assert done.returncode == Exit.PASS, done.stderr
        assert "same-build: " in done.stdout
        assert "flashbench aa" in done.stdout
        assert f"{file}: not written" in done.stderr
        assert not file.exists()
    for form, said in (
        ("markdown", "**Pass: good against documented: same build**"),
        ("json", '"same_build": true'),
        ("csv", 'good against documented,B,,SAME,"same build: '),
        ("junit", 'tests="1" failures="0" errors="0" skipped="0"'),
        ("github", "::notice title=flashbench%3A Pass::good against documented: same build"),
    ):
        done = compare("good", "documented", *FAST, "--format", form)
        assert done.returncode == Exit.PASS, done.stderr
        assert said in done.stdout
        assert "launch 1" not in done.stderr


def test_other_python_is_another_build(compare, words: Repository, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Equal libraries under Python that differs by a byte are measured; so is the same build with
    --even-if-same, and resumed from its file."""
    file = tmp_path / "run.json"
    few = [*SHAPES[:2], *FAST, "--launches", "2", "--run-file"]
    done = compare("documented", "spaced", *few, str(file))
    assert done.returncode == Exit.UNDECIDED, done.stderr
    a, b = [c.build for c in runfile.read(file).candidates if not c.baseline]
    assert a.library_hash == b.library_hash
    assert "same-library: " in done.stdout
    same = tmp_path / "same.json"
    done = compare("good", "good", "--even-if-same", *few, str(same))
    assert done.returncode == Exit.UNDECIDED, done.stderr
    done = compare("good", "good", "--resume", str(same), "--launches", "3")
    assert done.returncode == Exit.UNDECIDED, done.stderr
    assert len(runfile.read(same).launches) == 3


@pytest.mark.thorough
def test_budget_ends_undecided_and_resume_goes_on(compare, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """What a budget leaves undecided is exit code 3, and more launches are added to the file."""
    file = tmp_path / "run.json"
    done = compare(
        "good", "slower", *SHAPES, *FAST, "--launches", "2", "--run-file", str(file)
    )  # fmt: skip
    assert done.returncode == Exit.UNDECIDED, done.stderr
    before = runfile.read(file)
    done = compare("good", "slower", "--resume", str(file), "--launches", "30")
    assert done.returncode == Exit.REGRESSION, done.stderr
    after = runfile.read(file)
    assert len(after.launches) > 2
    assert after.launches[:2] == before.launches
    other = compare("good", "same", "--resume", str(file))
    assert other.returncode == Exit.USAGE
    assert "is not the build that was measured" in other.stderr
    refused = compare("good", "slower", "--resume", str(file), "--dtype", "fp16")
    assert refused.returncode == Exit.USAGE
    assert "--dtype" in refused.stderr


def test_budget_stops_and_resume_goes_on(compare, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """--budget stops in time with exit code 3, or 4 where a case was not measured, and the command
    that goes on; that keeps what was measured and adds launches."""
    file = tmp_path / "run.json"
    endless = ["--tolerance", "0.001%", "--launches", "1000", "--format", "json"]
    done = compare(
        "good", "same", *SHAPES, *FAST, *endless, "--budget", "4s", "--run-file", str(file)
    )
    assert done.returncode == stopped(done.stdout), done.stderr
    again = f"flashbench compare good same --resume {file}"
    assert f"stopped by --budget; resume with: {again}" in done.stderr
    before = runfile.read(file)
    assert before.settings.budget_seconds == 4
    assert 0 < len(before.launches) < 1000
    done = compare(*again.split()[2:], "--budget", "4s", "--format", "json")
    assert done.returncode == stopped(done.stdout), done.stderr
    assert "stopped by --budget" in done.stderr
    after = runfile.read(file)
    whole = [launch for launch in before.launches if launch.complete]
    assert len(after.launches) > len(whole)
    assert [after.launches[launch.index] for launch in whole] == whole


def stopped(table: str) -> Exit:
    """The documented exit code of a table without a regression."""
    found = set(verdicts(table).values())
    assert found <= {"UNDECIDED", "NOT MEASURED"}
    return Exit.NOT_MEASURED if "NOT MEASURED" in found else Exit.UNDECIDED


def test_interrupt_keeps_what_was_measured(project: Repository, tmp_path: Path) -> None:
    """SIGINT ends with exit code 4, the cost, and the command that resumes; the file is valid."""
    file = tmp_path / "one run.json"
    command = ["compare", "good", "same", *SHAPES, *FAST]
    command += ["--tolerance", "0.001%", "--launches", "1000", "--run-file", str(file)]
    process = forks.start(command, project.root, environment(project))
    while not file.exists() and process.poll() is None:
        time.sleep(0.01)
    assert process.poll() is None  # in the middle of its work
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == Exit.NOT_MEASURED
    assert f"flashbench compare good same --resume '{file}'" in errors
    assert f"the verdicts so far: flashbench compare '{file}'" in errors
    run = runfile.read(file)
    assert f"{file}: {len(run.launches)} launches; {Spent.of(run).line}" in errors


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere", "good"], "no commit"),
        (["--", "--upload-pack=x", "good"], "invalid revision"),
        (["good", "missing.json"], "no such file"),
        (["good", "same", "--against", "best"], "--against"),
        (["run.json", "--budget", "1s"], "--budget"),
    ],
)
def test_mistakes_are_one_line(compare, arguments: list[str], words: str) -> None:  # type: ignore[no-untyped-def]
    """A name that is neither, or flags that do not go together: exit code 2, no traceback."""
    done = compare(*arguments)
    assert done.returncode == Exit.USAGE
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_file_is_judged_as_it_was_measured(  # type: ignore[no-untyped-def]
    compare, project: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tolerance, confidence and metric are those of the file, unless flags say otherwise; the
    Python API resumes it with its tolerance and launches, too."""
    file = tmp_path / "run.json"
    flags = [*SHAPES[:2], *FAST, "--tolerance", "80%", "--confidence", "90%", "--format", "json"]
    done = compare("good", "same", *flags, "--launches", "50", "--run-file", str(file))
    assert done.returncode == Exit.PASS, done.stderr
    again = compare(str(file), "--format", "json")
    assert (again.returncode, again.stdout) == (Exit.PASS, done.stdout)
    stricter = json.loads(compare(str(file), "--format", "json", "--tolerance", "0.01%").stdout)
    assert stricter["summary"]["tolerance"] == pytest.approx(0.0001)
    assert stricter["summary"]["confidence"] == pytest.approx(0.9)
    resumed = compare("good", "same", "--resume", str(file), "--format", "json")
    assert (resumed.returncode, resumed.stdout) == (Exit.PASS, done.stdout)
    monkeypatch.chdir(project.root)
    for name, value in environment(project).items():
        monkeypatch.setenv(name, value)
    asked = {"cases": SHAPES[1], "dtypes": "fp32", "causal": "full", "samples": 8}
    judged = flashbench.compare(
        "good", "same", path=file, confidence=0.9, min_sample="0.2ms", **asked
    )
    assert judged.table("json") == done.stdout


def test_file_of_a_pair_is_compared_alone(compare, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Launches that stopped when they were decided are not judged by the rule of fixed numbers."""
    folder = tmp_path / "runs"
    folder.mkdir()
    file = folder / "run.json"
    compare("good", "same", *SHAPES[:2], *FAST, "--launches", "2", "--run-file", str(file))
    for other in (str(file), "run.json"):
        (tmp_path / "run.json").write_bytes(file.read_bytes())
        done = compare(str(file), str(tmp_path / other))
        assert done.returncode == Exit.USAGE
        assert "compare it alone" in done.stderr
    done = compare(str(folder))
    assert done.returncode == Exit.USAGE
    assert "compare it alone" in done.stderr


def test_own_run_file_does_not_change_the_working_tree(
    compare,  # type: ignore[no-untyped-def]
    project: Repository,
) -> None:
    """A comparison with WORKTREE whose run file lies in the repository can be resumed."""
    file = project.root / "mine.json"
    try:
        project.git("checkout", "-q", "same")
        flags = [*SHAPES[:2], *FAST, "--launches", "2", "--run-file", file.name]
        assert compare("good", *flags).returncode == Exit.UNDECIDED
        done = compare("good", "WORKTREE", "--resume", file.name, "--launches", "3")
        assert done.returncode == Exit.UNDECIDED, done.stderr
        assert len(runfile.read(file).launches) == 3
    finally:
        file.unlink()
        project.git("checkout", "-q", "main")


def test_name_too_long_for_a_file_is_one_line(compare) -> None:  # type: ignore[no-untyped-def]
    """What can be neither a file nor a revision: exit code 2, no traceback."""
    done = compare("x" * 5000)
    assert done.returncode == Exit.USAGE
    assert len(done.stderr.splitlines()) == 1
