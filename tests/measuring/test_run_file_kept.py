"""A run file that is there is resumed or refused, by one process at a time, and never lost."""

import errno
import fcntl
import json
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import forks
import numpy as np
import pytest
from synthetic import make_cases, make_pair, make_run

from flashbench import locks, runfile
from flashbench.candidates import parse_candidates
from flashbench.errors import InvalidInputError
from flashbench.files import write_file
from flashbench.fleet.merge import split
from flashbench.measuring.claim import claimed
from flashbench.measuring.plan import Plan
from flashbench.measuring.run_document import plan_to_resume
from flashbench.measuring.same_plan import differences
from flashbench.measuring.saving import NotSavedError, Saving
from flashbench.operations.attention.shapes import parse_shape
from flashbench.runfile import BuildIdentity, RunFile
from flashbench.shard import Shard

ROOT = Path(__file__).parents[2]
CORRECT = "tests.measuring.candidates_for_tests:correct"
TINY = ["--shape", "1,1,8,32", "--dtype", "fp32", "--threads", "1", "--min-sample", "0.1ms"]
TINY += ["--samples", "2", "--device", "cpu", "--backends", "default", "--causal", "full"]
TINY += ["--candidate", CORRECT]


def flashbench(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return forks.run(arguments, ROOT, environment)


def run(path: Path, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return flashbench("run", *TINY, "--launches", 2, "-o", path, *arguments, **environment)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("measured") / "run.json"
    done = run(path, "--format", "none")
    assert done.returncode == 0, done.stderr
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path, measured: bytes) -> Path:
    (tmp_path / "run.json").write_bytes(measured)
    return tmp_path / "run.json"


def test_the_same_command_again_prints_the_table(path: Path, measured: bytes) -> None:
    """A complete file is reported as that; nothing is measured again, and its table is printed."""
    done = run(path, "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert f"{path}: resumed, with 2 of 2 launches" in done.stderr
    assert "nothing is missing in the file" in done.stderr
    assert done.stdout == flashbench("show", path, "--format", "csv").stdout
    assert path.read_bytes() == measured


def test_a_complete_file_of_an_older_form_is_left_alone(path: Path) -> None:
    """What it does not say, and today's says, is no reason to write it again."""
    older = json.loads(path.read_bytes())
    for field in ("hourly_rate", "pair", "ceilings"):
        del older[field]
    path.write_text(json.dumps(older))
    before = path.read_bytes()
    done = run(path, "--format", "none")
    assert "nothing is missing in the file" in done.stderr
    assert path.read_bytes() == before


def test_more_launches_are_added(path: Path) -> None:
    """Those that are there stay, value by value."""
    before = runfile.read(path)
    done = run(path, "--launches", 3, "--format", "none")
    assert done.returncode == 0, done.stderr
    after = runfile.read(path)
    assert after.launches[:2] == before.launches
    assert after.launches[2].complete


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--launches", 1], "--launches (fewer)"),
        (["--samples", 3], "--samples (2)"),
        (["--seed", 1], "--seed (0)"),
        (["--threads", 2], "--threads (1)"),
        (["--min-sample", "1ms"], "--min-sample (0.0001 s)"),
        (["--backends", "all"], "--backends"),
        (["--shape", "1,1,16,32"], "cases"),
        (["--causal", "both"], "cases"),
        (["--candidate", f"other={CORRECT}"], "candidates"),
        (["--device", "cuda"], "device (cpu)"),
        (["--shard", "1/1"], "--shard (none)"),
        (["--samples", 3, "--seed", 1], "--samples (2), --seed (0)"),
    ],
)
def test_another_plan_is_refused(path: Path, measured: bytes, arguments, words) -> None:  # type: ignore[no-untyped-def]
    """Exit code 2 and one line with all that differs and the fix; the file is as it was."""
    done = run(path, *arguments)
    assert done.returncode == 2
    assert done.stderr == (
        f"flashbench: {path}: was measured with other {words}; name another file with -o, or "
        "replace this one with --force\n"
    )
    assert path.read_bytes() == measured


def test_force_measures_anew(path: Path) -> None:
    """The existing file is replaced by the requested run."""
    done = run(path, "--samples", 3, "--launches", 1, "--force", "--format", "none")
    assert done.returncode == 0, done.stderr
    after = runfile.read(path)
    assert (after.settings.samples, len(after.launches)) == (3, 1)


def test_another_build_is_refused_though_nothing_is_missing(tmp_path: Path) -> None:
    """The table of a build that is gone is not printed as if it were that of the new one."""
    source, path = tmp_path / "mine.py", tmp_path / "run.json"
    source.write_text("from torch.nn.functional import scaled_dot_product_attention as f\n")
    here = {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    asked = [*TINY[:-2], "--candidate", "mine:f", "--launches", 1, "-o", path, "--format", "none"]
    assert flashbench("run", *asked, **here).returncode == 0
    before = path.read_bytes()
    source.write_text(source.read_text() + "# changed\n")
    done = flashbench("run", *asked, **here)
    assert done.returncode == 2
    assert "--force measures from scratch" in done.stderr
    assert "the build of candidate f changed" in done.stderr.splitlines()[-1]
    assert path.read_bytes() == before


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    """A file of another kind is not replaced by chance; an empty one has nothing to lose."""
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    done = run(path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "or replace this one with --force" in done.stderr
    assert path.read_text() == "mine"
    path.write_text("")
    assert run(path, "--launches", 1, "--format", "none").returncode == 0


def test_resume_into_another_file_replaces_none(path: Path, measured: bytes) -> None:
    """--resume A -o B writes a new B, and refuses one that is there."""
    other = path.with_name("other.json")
    resume = ["run", "--resume", path, "--format", "none"]
    assert flashbench(*resume, "-o", other).returncode == 0
    assert runfile.read(other) == runfile.read(path)
    done = flashbench(*resume, "-o", other)
    assert done.returncode == 2
    assert "already holds a run" in done.stderr
    assert flashbench(*resume, "-o", other, "--force").returncode == 0
    done = flashbench(*resume, "--force")
    assert (done.returncode, path.read_bytes()) == (2, measured)


def test_two_at_once_lose_nothing(tmp_path: Path) -> None:
    """A second process gets the name of the writer, whatever it wants to do with the file."""
    path = tmp_path / "run.json"
    first = forks.start(["run", *TINY, "--launches", "1000", "-o", path], ROOT)
    try:
        deadline = time.monotonic() + 60
        while not (path.exists() and runfile.read(path).launches[0].complete):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        (tmp_path / "link.json").symlink_to("run.json")
        for second in (
            run(path),
            run(path, "--force"),
            run(tmp_path / "link.json"),
            flashbench("run", "--resume", path),
            flashbench("merge", path, "-o", path),
        ):
            assert second.returncode == 4
            assert f"process {first.pid} since 20" in second.stderr
            assert "is writing it; wait for it, or name another file with -o" in second.stderr
            assert second.stderr.count("\n") == 1
    finally:
        first.terminate()
        first.wait()
    assert runfile.read(path).launches[0].complete
    assert flashbench("merge", path, "-o", path).returncode == 0


def test_without_locks_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that has none is no reason not to measure; it is said."""

    def none(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", none)
    told: list[str] = []
    with claimed(tmp_path / "run.json", "-o", force=False, tell=told.append) as known:
        assert known is None
    assert "its file system has no locks" in told[0]


def test_leftovers_of_a_killed_writer_go(path: Path, measured: bytes) -> None:
    """Half a file that a killed process left is removed by the next one; other files are not."""
    half, others = path.with_name(".run.json.0123abcd.part"), path.with_name(".other.json.x.part")
    for file in (half, others):
        file.write_bytes(measured[:100])
    with claimed(path, "-o", force=False, tell=print):
        pass
    assert not half.exists()
    assert others.exists()


def test_a_folder_that_cannot_be_written_is_told_first(tmp_path: Path) -> None:
    """Before anything is measured; nor is a lock left."""
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "run.json", tmp_path):
        with (
            pytest.raises(InvalidInputError, match="cannot be written"),
            claimed(path, "-o", force=False, tell=print),
        ):
            pytest.fail("it cannot be written")


def test_a_pipe_gets_one_document(tmp_path: Path) -> None:
    """What cannot be replaced is written once, at the end."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    done = run(pipe, "--format", "none")
    assert done.returncode == 0, done.stderr
    document = os.read(reader, 1 << 20)
    os.close(reader)
    assert len(runfile.decode(document, "pipe").launches) == 2
    assert pipe.is_fifo()


def test_a_stream_that_takes_nothing_is_refused_first(tmp_path: Path) -> None:
    """A pipe without a reader and a full device give one line before anything is measured."""
    pipe, file, full = tmp_path / "pipe", tmp_path / "run.json", Path("/dev/full")
    os.mkfifo(pipe)
    assert run(file, "--format", "none").returncode == 0
    for done in (run(pipe), run(full), flashbench("run", "-o", pipe, "--resume", file)):
        assert done.returncode == 2
        assert "cannot be written" in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_pipe_is_open_from_the_beginning(tmp_path: Path) -> None:
    """Its reader waits for the document, and sees no end before it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with claimed(pipe, "-o", force=False, tell=print):
        with pytest.raises(BlockingIOError):  # at the end it would be b""
            os.read(reader, 1)
        write_file(pipe, b"whole")
    assert os.read(reader, 100) == b"whole"
    os.close(reader)


def test_a_reader_that_leaves_loses_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in the working directory keeps what the pipe no longer takes, and is named."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    measured = make_run(np.random.default_rng(0), cases=make_cases(1), launches=2, samples=4)
    saving = Saving(Path("pipe"))
    with pytest.raises(NotSavedError, match="this pipe has no reader") as lost:
        saving.end(measured)
    (kept,) = Path().glob("pipe-*.json")
    assert str(lost.value).endswith(f"; the run is in {kept} instead")
    assert runfile.read(kept) == measured


def test_merge_replaces_what_is_a_part_of_it(tmp_path: Path) -> None:
    """Merging again, with more parts, is allowed; a file with results of its own is not lost."""
    whole = make_run(np.random.default_rng(0), cases=make_cases(4), launches=2, samples=4)
    parts = [tmp_path / f"{index}.json" for index in (1, 2)]
    for part, file in zip(split(whole, [Shard(1, 2), Shard(2, 2)]), parts, strict=True):
        runfile.save(part, file)
    out = tmp_path / "out.json"
    for given in (parts[:1], parts, parts):
        done = flashbench("merge", *given, "-o", out)
        assert done.returncode == 0, done.stderr
    before = out.read_bytes()
    done = flashbench("merge", parts[0], "-o", out)
    assert done.returncode == 2
    assert "results that the parts lack" in done.stderr
    assert out.read_bytes() == before
    assert flashbench("merge", parts[0], "-o", out, "--force").returncode == 0


def plan_of(run: RunFile) -> Plan:
    return replace(plan_to_resume(run, Path("run.json")), chosen=run.cases)


def test_a_file_s_own_plan_is_the_same() -> None:
    """Nothing differs, whatever the order of cases and candidates."""
    for made in (make_run, make_pair):
        run = made(np.random.default_rng(0), cases=make_cases(3), launches=2, samples=4)
        plan = plan_of(run)
        assert differences(run, plan) == []
        assert differences(run, replace(plan, chosen=run.cases[::-1], launches=9)) == []
        assert differences(run, replace(plan, budget_seconds=1, timeout_seconds=2)) == []
        assert differences(run, replace(plan, device="auto", command=["x"])) == []


def test_builds_metrics_and_pairs_tell_plans_apart() -> None:
    """What the command line cannot say is compared, too."""
    run = make_pair(np.random.default_rng(0), cases=make_cases(2), launches=2, samples=4)
    plan = plan_of(run)
    (one, *_) = plan.candidates
    one.build = BuildIdentity(source_hash="another", library_hash="another")
    assert differences(run, plan) == ["builds"]
    one.build = BuildIdentity()
    (changed,) = differences(run, replace(plan, pair=None))
    assert changed.startswith("rule that ends a case")
    assert differences(run, replace(plan, metrics=["graph"])) == ["--metric"]
    run.settings.metrics = ["wall", "graph"]
    assert differences(run, replace(plan, metrics=["graph"])) == ["--metric"]
    assert differences(run, replace(plan, metrics=["wall", "graph"])) == []
    assert differences(run, replace(plan, metrics=None)) == ["--metric"]


def test_a_file_without_cases_is_no_plan() -> None:
    """It is refused before its cases are used."""
    run = make_run(np.random.default_rng(0), cases=make_cases(1), launches=1, samples=2)
    plan = Plan(shapes=[parse_shape("1,1,8,32").sizes], candidates=parse_candidates(["a=x:f"]))
    run.cases = []
    assert differences(run, plan) == ["cases (none)"]


def test_a_lock_names_the_file_s_owner_to_other_hosts(tmp_path: Path) -> None:
    """On a shared file system the process may be another machine's."""
    holder = locks.Holder(pid=7, host="node1", since="2026-01-01 00:00:00+00:00")
    assert str(holder) == "process 7 on node1 since 2026-01-01 00:00:00+00:00"
