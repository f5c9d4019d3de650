"""Shards of a grid, and the run file that their parts merge into."""

import copy
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import make_cases, make_pair, make_run

from flashbench import runfile
from flashbench.case import Case
from flashbench.cli import cli
from flashbench.cli.compare import command as compare
from flashbench.cli.merge import command as merge_command
from flashbench.errors import InvalidInputError
from flashbench.fleet.merge import merge, split, warnings
from flashbench.measuring.remaining import unfinished_launches
from flashbench.operations.attention.operation import grid
from flashbench.operations.attention.shapes import PRESETS
from flashbench.render import render
from flashbench.report import report_one
from flashbench.runfile import DeviceState, Environment, Pair, RunFile
from flashbench.shard import Shard, cases_of_shard, equal_shards
from flashbench.views import speedup

PAIR = Pair(old="ours", new="sdpa", tolerance=0.01, confidence=0.95)


def small_run(
    cases: int = 5,
    launches: int = 3,
    seed: int = 0,
    make: Callable[..., RunFile] = make_run,
) -> RunFile:
    rng = np.random.default_rng(seed)
    return make(rng, cases=make_cases(cases), launches=launches, samples=4)


def named(parts: list[RunFile]) -> list[tuple[str, RunFile]]:
    return [(f"part-{number}.json", part) for number, part in enumerate(parts, 1)]


def test_a_part_without_a_launch_is_of_any_machine() -> None:
    """Its budget ended before it knew its own; what it spent counts."""
    whole = small_run()
    first, second = split(whole, equal_shards(2))
    second.launches, second.environment, second.candidates = [], Environment(), []
    second.costs.lost_seconds = 7.0
    merged = merge(named([second, first]))
    assert merged.environment == whole.environment
    assert merged.candidates == whole.candidates
    assert merged.device_seconds == pytest.approx(whole.device_seconds + 7)


@given(cases=st.integers(1, 40), count=st.integers(1, 8), seed=st.integers(0, 2**32))
def test_shards_share_out_the_grid(cases: int, count: int, seed: int) -> None:
    """Every case is in exactly one shard, whatever the order of the grid; lengths are equal."""
    count = min(count, cases)
    ordered = make_cases(cases)
    mixed = [ordered[i] for i in np.random.default_rng(seed).permutation(cases)]
    shards = [cases_of_shard(mixed, f"{i}/{count}") for i in range(1, count + 1)]
    assert sorted(case for shard in shards for case in shard) == sorted(ordered)
    assert max(map(len, shards)) - min(map(len, shards)) <= 1
    for i, shard in enumerate(shards, 1):
        assert set(shard) == set(cases_of_shard(ordered, f"{i}/{count}"))
        assert shard == [case for case in mixed if case in shard]


def test_shards_of_the_grid_are_balanced() -> None:
    """On the preset `grid` no shard has twice the operations of another."""
    cases: list[Case] = grid(PRESETS["grid"], ["fp16", "bf16"], [False, True], "cuda")
    for count in (2, 4, 8):
        work = [
            sum(case.flops for case in cases_of_shard(cases, f"{i}/{count}"))
            for i in range(1, count + 1)
        ]
        assert max(work) < 2 * min(work)


@pytest.mark.parametrize(
    "text", ["0/2", "3/2", "1", "1/0", "a/b", "1/2/3", "-1/2", "1/99999999", "1/2:", "1/2:a"]
)
def test_bad_shards_are_refused(text: str) -> None:
    """What is not i/n with 1 <= i <= n is refused with the accepted form."""
    with pytest.raises(InvalidInputError, match="write i/n"):
        Shard.parse(text)


def test_more_shards_than_cases_are_refused() -> None:
    """A case is never split, so there cannot be more shards than cases."""
    with pytest.raises(InvalidInputError, match="at most 3 shards"):
        cases_of_shard(make_cases(3), "1/4")


@st.composite
def runs(draw: st.DrawFn) -> RunFile:
    """Run files with holes: launches cut short, cases put off, failures; of two builds or not."""
    make = draw(st.sampled_from([make_run, make_pair]))
    run = small_run(
        draw(st.integers(1, 7)), draw(st.integers(1, 4)), draw(st.integers(0, 99)), make
    )
    if run.pair is not None:
        run.pair.tolerance = draw(st.sampled_from([0.01, 0.2]))
        run.pair.confidence = draw(st.sampled_from([0.95, 0.99]))
    run.hourly_rate = draw(st.sampled_from([None, 3.5]))
    run.settings.budget_seconds = draw(st.sampled_from([None, 10.0]))
    run.environment.hostname = draw(st.sampled_from(["", "node1", "node1, node2"]))
    for launch in run.launches:
        launch.device_seconds = draw(st.floats(0, 1e6))
        launch.before = draw(st.sampled_from([None, DeviceState(sm_clock_mhz=1980)]))
        hole = draw(st.sampled_from(["none", "none", "cut", "put off", "crash"]))
        if hole == "cut":
            launch.results = launch.results[: draw(st.integers(0, len(launch.results) - 1))]
        elif hole != "none":
            result = draw(st.sampled_from(launch.results))
            result.status = "crashed" if hole == "crash" else "over_budget"
            result.timings = []
        launch.complete = hole in ("none", "crash")
    return run


@settings(max_examples=60)
@given(run=runs(), data=st.data())
def test_merge_undoes_split(run: RunFile, data: st.DataObject) -> None:
    """A run file taken apart by case and merged, in any order, is the document it was."""
    count = data.draw(st.integers(1, len(run.cases)))
    shards = equal_shards(count)
    if data.draw(st.booleans()):  # as a planner assigns them
        order = data.draw(st.permutations(range(len(run.cases))))
        shards = [Shard(i + 1, count, tuple(order[i::count])) for i in range(count)]
    before = runfile.encode(run)
    parts = data.draw(st.permutations(named(split(copy.deepcopy(run), shards))))
    merged = merge(parts)
    assert runfile.encode(merged) == before
    decoded = runfile.decode(runfile.encode(parts[0][1]), "part")
    assert decoded.settings.shard == parts[0][1].settings.shard
    assert (unfinished_launches(merged) == 0) == all(not unfinished_launches(p) for _, p in parts)


@given(run=runs(), field=st.sampled_from(RunFile.__struct_fields__))
def test_no_field_is_dropped(run: RunFile, field: str) -> None:
    """Whatever the parts agree on, the merged file has; a part that has no `pair` where the others
    have one, or another, is refused."""
    count = min(2, len(run.cases))
    parts = split(run, equal_shards(count))
    if field != "settings":  # the shard
        assert getattr(merge(named(parts)), field) == getattr(run, field)
    if field == "pair" and count == 2:
        other = Pair(old=run.candidates[0].name, new="x", tolerance=0.3, confidence=0.5)
        parts[1].pair = other if run.pair is None else None
        with pytest.raises(InvalidInputError, match="another comparison of two builds"):
            merge(named(parts))


def test_verdicts_are_those_of_the_unsharded_file() -> None:
    """The table of the merged file is the table of the run that was never sharded."""
    rng = np.random.default_rng(3)
    run = make_run(rng, cases=make_cases(6), speedup=[0.9, 1, 1, 1.1, 1.5, 2])
    merged = merge(named(split(run, equal_shards(4))))
    tables = [render(speedup.document(report_one(one)), "json") for one in (run, merged)]
    assert tables[0] == tables[1]
    assert "SLOWER" in tables[0]


def _other_grid(run: RunFile) -> None:
    run.cases = make_cases(9)


def _other_launch_seed(run: RunFile) -> None:
    run.launches[0].seed = 77


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda run: setattr(run.settings, "seed", 1), "the setting seed is 1, not 0"),
        (lambda run: setattr(run.settings, "launches", 9), "the setting launches is 9, not 3"),
        (lambda run: setattr(run.environment, "gpu", "B200"), "gpu is B200, not none"),
        (lambda run: setattr(run.environment, "torch", "2.8"), "torch is 2.8, not 2.9.0"),
        (lambda run: setattr(run.environment, "driver", "1"), "driver is 1, not none"),
        (lambda run: setattr(run, "flashbench", "9"), "flashbench is 9, not 0.1.0"),
        (
            lambda run: setattr(run.candidates[0].build, "library_hash", "f"),
            "another build of candidate ours",
        ),
        (lambda run: setattr(run.candidates[0], "spec", "a:b"), "candidate ours is another func"),
        (lambda run: run.candidates.pop(), "other candidates"),
        (_other_grid, "another grid"),
        (lambda run: setattr(run, "pair", PAIR), "another comparison of two builds, or of none"),
        (lambda run: setattr(run, "version", 2), "version is 2, not 1"),
        (_other_launch_seed, "launch 0 has another seed"),
    ],
)
def test_parts_of_different_runs_are_refused(
    change: Callable[[RunFile], object], words: str
) -> None:
    """Another plan, machine or build is refused in one line that says what differs."""
    parts = split(small_run(), equal_shards(2))
    parts[1] = copy.deepcopy(parts[1])
    change(parts[1])
    with pytest.raises(InvalidInputError, match=words) as caught:
        merge(named(parts))
    assert "part-2.json" in str(caught.value)


def test_hosts_and_budgets_of_parts() -> None:
    """Each host is named once; what the parts do not agree on is left out, not invented."""
    parts = [copy.deepcopy(part) for part in split(small_run(), equal_shards(3))]
    for part, host, memory in zip(parts, ["b", "a", "b"], [1, 2, 1], strict=True):
        part.environment.hostname, part.environment.memory_bytes = host, memory
        part.settings.budget_seconds = memory
    parts[1].settings.earlier = [2]
    merged = merge(named(parts))
    assert merged.environment.hostname == "b, a"
    assert merged.environment.memory_bytes == 0
    assert merged.settings.budget_seconds is None
    assert merged.settings.earlier == [2]  # a part that was stopped more often was seen more often


def write(directory: Path, parts: list[RunFile]) -> list[str]:
    paths = [directory / f"part-{number}.json" for number in range(1, len(parts) + 1)]
    for path, part in zip(paths, parts, strict=True):
        runfile.save(part, path)
    return [str(path) for path in paths]


def test_missing_shard_is_told_and_compared_as_not_measured(tmp_path: Path) -> None:
    """The merged file lists the whole grid: `compare` exits 4 for the cases of a lost shard; a
    later merge with that shard completes it."""
    run = small_run(6, launches=12)
    paths = write(tmp_path, split(run, equal_shards(3)))
    out = str(tmp_path / "out.json")
    done = CliRunner().invoke(merge_command, [paths[0], paths[2], "-o", out])
    assert done.exit_code == 0, done.output
    assert "shard 2/3 is not among the parts" in done.stderr
    assert "2 of 6 cases have no result" in done.stderr
    judged = CliRunner().invoke(compare, [out], standalone_mode=False)
    assert judged.return_value == 4
    assert judged.stdout.count("NOT MEASURED") >= 2
    done = CliRunner().invoke(merge_command, [out, paths[1], "-o", out])
    assert done.exit_code == 0, done.output
    assert "warning" not in done.stderr.replace(f"warning: {out} is unfinished", "")
    whole = runfile.read(Path(out))
    assert whole.launches == run.launches
    assert whole.cases == run.cases


def test_unfinished_shard_is_told() -> None:
    """A part whose launches were cut short is named, with how many."""
    parts = [copy.deepcopy(part) for part in split(small_run(), equal_shards(2))]
    parts[1].launches.pop()
    parts[1].launches[-1].results[0].status = "interrupted"
    told = warnings(named(parts), merge(named(parts)))
    assert told == ["part-2.json is unfinished: 2 of 3 launches"]


@pytest.mark.parametrize("shard", ["x", "2/1", "1/6", "1/999999"])
def test_damaged_parts_are_named(shard: str) -> None:
    """An impossible shard is damage, reported with the file; so is a count beyond all launches."""
    parts = split(small_run(), equal_shards(2))
    parts[1].settings.shard = shard
    with pytest.raises(InvalidInputError, match=r"part-2\.json: damaged run file: .*shard"):
        merge(named(parts))
    for part in parts:
        part.settings = msgspec.structs.replace(part.settings, launches=2**62, shard="1/2")
    assert unfinished_launches(parts[0]) == 2**62 - 3


def test_part_named_twice_is_refused(tmp_path: Path) -> None:
    """The same part twice would count its evidence twice; nothing is written."""
    paths = write(tmp_path, split(small_run(), equal_shards(2)))
    for again in (paths[0], str(tmp_path / "copy.json")):
        (tmp_path / "copy.json").write_bytes(Path(paths[0]).read_bytes())
        with pytest.raises(InvalidInputError, match="name each part once"):
            cli.main(["merge", *paths, again, "-o", str(tmp_path / "o")], standalone_mode=False)
    assert not (tmp_path / "o").exists()
