"""Runs of other operations than attention, from the command to the verdict."""

from pathlib import Path

import forks
import numpy as np
import pytest
from synthetic import make_run

from flashbench import operations, runfile
from flashbench.errors import InvalidInputError

CANDIDATES = """
import torch

def right(x, weight, eps):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype) * weight

def zeros(x, weight, eps):
    return torch.zeros_like(x)
"""
QUICK = ["--device", "cpu", "--dtype", "fp32", "--threads", "1", "--min-sample", "0.1ms"]
QUICK += ["--samples", "2", "--launches", "2"]


@pytest.mark.slow
def test_a_norm_is_measured_shown_and_compared(tmp_path: Path) -> None:
    """A right norm gets times beside torch's, a wrong one none; the file is read and judged."""
    (tmp_path / "mine.py").write_text(CANDIDATES)
    words = ["run", "--operation", "rms-norm", "--shape", "rows=4,8,dim=32", *QUICK]
    words += ["--candidate", "mine:right", "--candidate", "mine:zeros", "-o", "run.json"]
    done = forks.run(words, tmp_path, {})
    assert done.returncode == 1, done.stderr  # zeros is wrong
    run = runfile.read(tmp_path / "run.json")
    assert run.version == 2
    assert [case.id for case in run.cases] == [
        "rms-norm-rows4-dim32-fp32-cpu",
        "rms-norm-rows8-dim32-fp32-cpu",
    ]
    assert [one.name for one in run.candidates if one.baseline] == ["torch:eager"]
    fates = {(r.candidate, r.status) for launch in run.launches for r in launch.results}
    assert fates == {("torch:eager", "ok"), ("right", "ok"), ("zeros", "wrong")}
    assert "torch us" in done.stdout
    assert "SDPA" not in done.stdout
    again = forks.run([*words, "--launches", "3", "--format", "none"], tmp_path, {})
    assert len(runfile.read(tmp_path / "run.json").launches) == 3, again.stderr
    both = forks.run(["compare", "run.json", "run.json"], tmp_path, {})
    assert both.returncode == 1
    assert "machine = torch in A / in B" in both.stdout
    assert forks.run(["show", "--group", "rows", "run.json"], tmp_path, {}).returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--operation nope", "operations are attention, attention-backward"),
        ("--operation rms-norm --shape rows=4", "dim is missing"),
        ("--operation rms-norm --shape rows=4,dim=0", "'dim=0' is not a size"),
        ("--operation rms-norm --shape rows=4,dim=8,rows=5", "rows appears twice"),
        ("--operation rms-norm --shape 1,8,512,64", "'1' is not a size"),
        (
            "--operation rms-norm --preset models --baseline-only",
            "presets are tiny, headline, grid",
        ),
        ("--operation rms-norm --causal full --baseline-only", "--causal full is for attention"),
        ("--operation rms-norm --backends math --baseline-only", "names of compile"),
        ("--operation rms-norm", "flashbench has no rms-norm of its own"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(words: str, said: str, tmp_path: Path) -> None:
    """A shape, preset, mask or backend of another operation says what this one has."""
    done = forks.run(["run", "--device", "cpu", *words.split()], tmp_path, {})
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_revisions_have_the_operation_of_their_project(tmp_path: Path) -> None:
    """A flag that differs from the settings by which builds are checked names the setting."""
    (tmp_path / "pyproject.toml").write_text(
        '[tool.flashbench.project]\ncallable = "a:b"\nbuild = []\noperation = "softmax"\n'
    )
    done = forks.run(["compare", "--operation", "matmul", "HEAD", "WORKTREE"], tmp_path, {})
    assert done.returncode == 2
    assert 'set operation = "matmul" in [tool.flashbench.project]' in done.stderr


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"rows":8', '"rows":0', "cases[0]: a size is not a possible number"),
        ('"rows":8', '"ro-ws":8', "cases[0]: a name is not one of letters"),
        ('"operation":"softmax"', '"operation":"<b>"', "cases[0]: a name is not one of letters"),
        ('"flops":', '"flops":-', "cases[0]: a count is below 0"),
        ('"dim":16', '"dim":"16"', "cases[0].sizes[...]: expected a whole number, found text"),
        ('"version":2', '"version":3', "written by a newer flashbench"),
    ],
)
def test_a_damaged_case_is_refused_with_its_place(old: str, new: str, said: str) -> None:
    """Cases of other operations are as untrusted as all else in a file."""
    case = operations.named("softmax").case({"rows": 8, "dim": 16}, "fp32", "cpu")
    run = make_run(np.random.default_rng(0), cases=[case], launches=1, samples=2)
    run.version = runfile.version_for(run.cases)
    content = runfile.encode(run).decode()
    assert runfile.decode(content.encode(), "f").cases == [case]
    assert old in content
    with pytest.raises(InvalidInputError) as caught:
        runfile.decode(content.replace(old, new, 1).encode(), "f")
    assert said in str(caught.value)
