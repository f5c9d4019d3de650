"""Files of other operations in every view, in the history and on its pages."""

import subprocess
from pathlib import Path

import forks
import numpy as np
import pytest
from synthetic import make_run

from flashbench import operations, runfile
from flashbench.case import Case
from flashbench.cost.known import Basis, Experience
from flashbench.cost.store import CandidateCost, CaseCost, MachineCosts
from flashbench.operations import Operation
from flashbench.other_tools.benchmarks import find_case
from flashbench.runfile import RunFile


class Rope(Operation):
    """A project's operation; what reads the file does not know it."""

    name = "fb_ops:Rope"
    sizes = ("rows", "dim")

    def counts(self, sizes: operations.Sizes, options: operations.Options) -> tuple[int, int, int]:
        return 100, 200, 0


class Copy(Rope):
    """An operation of data movement alone, without a count of bytes either."""

    name = "fb_ops:Copy"

    def counts(self, sizes: operations.Sizes, options: operations.Options) -> tuple[int, int, int]:
        return 0, 0, 0


def measured(operation: Operation, commit: str = "0" * 40) -> RunFile:
    """A run of two cases, with torch's own twice as slow."""
    cases: list[Case] = operation.grid(
        [{"rows": 8, "dim": 16}, {"rows": 8, "dim": 32}], ["fp16"], operation.options, "cpu"
    )
    run = make_run(np.random.default_rng(0), cases=cases, launches=10, samples=4, speedup=2.0)
    for candidate in run.candidates:
        if candidate.baseline:
            candidate.name = candidate.spec = "torch:eager"
        else:
            candidate.build.commit = commit
    for launch in run.launches:
        for result in launch.results:
            result.candidate = result.candidate.replace("sdpa", "torch:eager")
    run.version = runfile.version_for(cases)
    return run


EVERY = pytest.mark.parametrize("operation", [operations.named("softmax"), Rope(), Copy()])


@EVERY
def test_every_view_speaks_of_torch(operation: Operation, tmp_path: Path) -> None:
    """Tables, a comparison of two files and the report name the baseline as it is, never SDPA."""
    runfile.save(measured(operation), tmp_path / "a.json")
    for words in (
        "show a.json",
        "show --view detail a.json",
        "show --format json a.json",
        "show --sort -dim --group dim a.json",
        "show --columns all a.json",
        "compare a.json",
        "compare a.json a.json",
        "compare --format junit a.json",
        "report a.json -o report",
    ):
        done = forks.run(words.split(), tmp_path, {})
        assert done.returncode == 0, f"{words}: {done.stderr}"
        assert "SDPA" not in done.stdout.replace("sdpa", "SDPA"), words
    table = forks.run(["show", "--sort", "-dim", "a.json"], tmp_path, {}).stdout
    assert "torch us" in table
    assert table.index("dim32") < table.index("dim16")
    assert "2.000 [" in table or "2.00" in table


@EVERY
def test_the_history_keeps_its_control(operation: Operation, tmp_path: Path) -> None:
    """A recorded run has one series a case, as a ratio to torch's own, and pages of both."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    runfile.save(measured(operation, head.stdout.strip()), tmp_path / "a.json")
    done = forks.run(["record", "--machine", "box", "a.json"], tmp_path, {})
    assert done.returncode == 0, done.stderr
    history = forks.run(["history"], tmp_path, {})
    assert "2 series" in history.stdout, history.stdout + history.stderr
    assert "no baseline beside them" not in history.stdout
    published = forks.run(["publish", "-o", "site"], tmp_path, {})
    assert published.returncode == 0, published.stderr
    assert len(list((tmp_path / "site" / "cases").iterdir())) == 2
    for page in (tmp_path / "site").rglob("*.*"):
        assert "SDPA" not in page.read_text(), page
    assert "faster than torch" in (tmp_path / "site" / "index.html").read_text()


def test_nothing_computed_has_an_estimate() -> None:
    """A case without operations is planned like a very small one."""
    machine = MachineCosts(
        device="cpu",
        name="box",
        threads=1,
        cases={
            "softmax-rows8-dim16-fp16-cpu": CaseCost(
                every=0.1,
                first=0.1,
                candidates={"a:b": CandidateCost(call=1e-5, fixed=1e-3, turn=1e-3, stretch=1.0)},
            )
        },
    )
    for operation, basis in ((operations.named("softmax"), Basis.NEAR), (Copy(), Basis.GUESS)):
        case = operation.case({"rows": 8, "dim": 32}, "fp16", "cpu")
        known = Experience("cpu", machine)
        assert known.level(case, ["a:b"]) == basis
        assert 0 < known.speed(case, "a:b").call < 1
        assert 0 < known.around(case).every < 1


def test_ids_are_found_in_names() -> None:
    """A benchmark of another tool that names a case of a built-in operation is one of it."""
    for case in (
        "b1-h8-q512-d64-fp16-causal-cpu",
        "rms-norm-rows64-dim128-fp32-cpu",
        "matmul-m16-n32-k64-bf16-cuda",
    ):
        assert find_case(f"test_kernel[{case}-mine]") == case
    assert find_case("test_matmul[m16-n32-fp32]") == ""
