"""A profile on a GPU, put together from what a launch and ncu said on an H200."""

import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from stored_profiles import STORED

from flashbench import machine
from flashbench.case import Case
from flashbench.measuring.protocol import Setup
from flashbench.operations import parse_case
from flashbench.operations.case_document import decode_case
from flashbench.profile import collect, model
from flashbench.profile.target import Job
from flashbench.profile.timing import Timed
from flashbench.runfile import DeviceState

GPU = Path(__file__).parents[1] / "golden" / "profile_gpu.json"
CASE = parse_case("b1-h16-q4096-d128-bf16-full-cuda")
# ncu, as far as `collect` asks it; the job that it would have run is kept.
NCU = """#!/bin/sh
case "$*" in
*--version*) echo "Version 2025.3.1.0 (build 1) (public-release)";;
*--query-metrics*) cat {stored}/query-2022.3-gh100.txt;;
*--import*-sdpa.ncu-rep*) cat {stored}/sdpa.csv;;
*--import*) cat {stored}/ours.csv;;
*) while [ "$1" != --export ]; do shift; done; echo raw > "$2"
   for job in "$@"; do :; done; cp "$job" "$2.job";;
esac
"""


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose launches and ncu say what those of an H200 said."""
    program = tmp_path / "ncu"
    program.write_text(NCU.format(stored=STORED))
    program.chmod(0o755)
    monkeypatch.setenv("FLASHBENCH_NCU", str(program))
    monkeypatch.setenv("FLASHBENCH_MACHINE", str(tmp_path / "machine.json"))
    ceilings = model.read(GPU).ceilings
    assert ceilings is not None
    machine.keep(ceilings, tmp_path / "machine.json")

    def timed(setup: Setup, name: str, case: Case, seed: int, timeout: float) -> Timed:
        file = STORED / f"{'sdpa' if name == 'sdpa' else 'ours'}.timed.json"
        return msgspec.json.decode(file.read_bytes(), type=Timed)

    monkeypatch.setattr(collect, "time_case", timed)
    return tmp_path


def profile(
    place: Path,
    *names: str,
    case: Case = CASE,
    cold: bool = False,
    tell: Callable[[str], None] = lambda text: None,
    keep: Callable[[model.CaseProfile], None] = lambda profile: None,
) -> model.CaseProfile:
    """The profile of candidates by these names."""
    setup = Setup(
        device="cuda",
        candidates=[],
        backends="default",
        threads=None,
        samples=40,
        min_sample_seconds=None,
    )
    how = collect.How(cold=cold, seed=7, timeout=30, stem=place / "p", tell=tell, keep=keep)
    asked = [collect.ToProfile(msgspec.structs.replace(setup), name, name) for name in names]
    return collect.collect(case, asked, how, ["flashbench", "profile"])


def test_times_counters_ceilings_and_reports(gpu: Path) -> None:
    """What a launch, ncu and the machine's profile say stands in one document."""
    found, stored = profile(gpu, "flashbench", "sdpa"), model.read(GPU)
    assert found.tool == "ncu 2025.3.1.0"
    assert found.environment.gpu == "NVIDIA H200"
    assert found.ceilings == stored.ceilings
    for one, expected in zip(found.subjects, stored.subjects, strict=True):
        assert one.times == expected.times
        assert one.kernels == expected.kernels
        assert one.without == ""
        assert (gpu / one.report).read_text() == "raw\n"
    assert [one.report for one in found.subjects] == ["p-flashbench.ncu-rep", "p-sdpa.ncu-rep"]


def test_the_call_under_ncu_is_that_of_the_launch(gpu: Path) -> None:
    """The job has the case, the seed and the candidate of the launch, and the cache as asked."""
    profile(gpu, "flashbench", cold=True)
    job = msgspec.json.decode(
        (gpu / "p-flashbench.ncu-rep.job").read_bytes(), type=Job, dec_hook=decode_case
    )
    assert (job.case, job.seed, job.candidate, job.cold) == (CASE, 7, "flashbench", True)


@pytest.mark.parametrize(("load", "told"), [(0.0, False), (1e4, True)])
def test_a_busy_machine_is_told(
    gpu: Path, monkeypatch: pytest.MonkeyPatch, load: float, told: bool
) -> None:
    """Once, as `run` does."""
    before = collect.time_case

    def timed(*given: Any) -> Timed:
        return replace(before(*given), state=DeviceState(load_average=load))

    monkeypatch.setattr(collect, "time_case", timed)
    monkeypatch.setattr(collect, "_ceilings", lambda *_: None)
    monkeypatch.setenv("PATH", str(gpu / "nothing"))  # no perf
    lines: list[str] = []
    profile(
        gpu, "flashbench", "sdpa", case=parse_case("b1-h1-q16-d8-fp32-full-cpu"), tell=lines.append
    )
    assert sum("warning: this machine is busy" in line for line in lines) == told


def test_copies_and_fills_are_kept_beside_counted_kernels(gpu: Path) -> None:
    """ncu does not see them, torch's profiler does."""
    (sdpa,) = profile(gpu, "sdpa").subjects
    assert [bool(kernel.counters) for kernel in sdpa.kernels] == [True, False]
    assert sdpa.kernels[1].name.startswith("Memset")
    assert sdpa.kernels[1].seconds is not None


@pytest.mark.parametrize("said", ["hello", "==WARNING== No kernels were profiled.", ""])
def test_odd_output_of_ncu_loses_no_times(gpu: Path, said: str) -> None:
    """The reason is there, and the other candidate is profiled."""
    program = (gpu / "ncu").read_text()
    (gpu / "ncu").write_text(program.replace(f"cat {STORED}/ours.csv", f"echo '{said}'"))
    ours, sdpa = profile(gpu, "flashbench", "sdpa").subjects
    assert ours.times
    assert "not a CSV of ncu" in ours.without
    assert sdpa.kernels[0].counters
    assert not sdpa.without


def test_no_permission_loses_no_times(gpu: Path) -> None:
    """The reason is there, with the kernels of the call by torch's profiler."""
    (gpu / "ncu").write_text("#!/bin/sh\necho '==ERROR== ERR_NVGPUCTRPERM - denied'; exit 1\n")
    (one,) = profile(gpu, "flashbench").subjects
    assert "may not read the GPU's counters" in one.without
    assert one.times
    (kernel,) = one.kernels
    assert kernel.seconds == pytest.approx(200e-6, rel=0.1)
    assert not kernel.counters


def test_every_step_is_kept(gpu: Path) -> None:
    """Whatever ends it: times before counters, counters before the next candidate. Ceilings that
    are known are there from the first step."""
    kept: list[tuple[int, str, bool]] = []

    def keep(found: model.CaseProfile) -> None:
        model.save(found, gpu / "p.json")
        last = model.read(gpu / "p.json").subjects[-1]
        assert last.times
        kept.append((len(found.subjects), last.without, found.ceilings is not None))

    profile(gpu, "flashbench", "sdpa", keep=keep)
    ended = "the profile ended before that"
    assert kept == [
        (1, ended, True),
        (1, "", True),
        (2, ended, True),
        (2, "", True),
    ]


@pytest.mark.parametrize("during", ["time_case", "_count"])
def test_an_interrupted_step_is_paid_for(
    gpu: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], during: str
) -> None:
    """The step that Ctrl-C cuts counts, without a result; the rest is kept with its reason."""
    kept: list[model.CaseProfile] = []

    def cut(*arguments: object) -> None:
        time.sleep(0.06)
        raise KeyboardInterrupt

    monkeypatch.setattr(collect, during, cut)
    with pytest.raises(KeyboardInterrupt):
        profile(gpu, "flashbench", keep=kept.append, tell=print)
    said = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(r"device time \d\.\d s; without a result \d\.\d s", said)
    assert bool(kept) == (during == "_count")
    for one in kept[-1:]:
        assert 0.06 <= one.lost_seconds < one.device_seconds
        assert one.subjects[0].without == "the profile ended before that"
