"""The gradients of attention as an operation, alone and after their forward."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import forks
import numpy as np
import pytest
import torch
from synthetic import make_run
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from flashbench import attention, operations, runfile
from flashbench.errors import InvalidInputError
from flashbench.measuring.checks import WrongError, check_candidate
from flashbench.measuring.problem import Problem
from flashbench.other_tools.benchmarks import find_case
from flashbench.revisions.correctness import check_named

BOTH = pytest.mark.parametrize("name", ["attention-backward", "attention-forward-backward"])
TINY = {"batch": 1, "heads": 4, "kv_heads": 2, "q_len": 20, "k_len": 30, "head_dim": 32}
CANDIDATES = """
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

class WithoutDk(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, words):
        ctx.save_for_backward(q, k, v)
        ctx.words = words
        return sdpa(q, k, v, **words)

    @staticmethod
    def backward(ctx, dout):
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in ctx.saved_tensors]
            dq, dk, dv = torch.autograd.grad(sdpa(*leaves, **ctx.words), leaves, dout)
        return dq, torch.zeros_like(dk), dv, None

def without_dk(q, k, v, **words):
    return WithoutDk.apply(q, k, v, words)

def detached(q, k, v, **words):
    return sdpa(q.detach(), k.detach(), v.detach(), **words)
"""


@pytest.mark.slow
def test_gradients_are_measured_shown_and_compared(tmp_path: Path) -> None:
    """Ours is right and timed beside SDPA; a wrong dk is named, and what has no gradient is not
    called wrong."""
    (tmp_path / "mine.py").write_text(CANDIDATES)
    words = ["run", "--operation", "attention-backward", "--shape", "1,2,32,32", "--dtype", "fp32"]
    words += ["--device", "cpu", "--causal", "causal", "--threads", "1", "--min-sample", "0.1ms"]
    words += ["--samples", "2", "--backends", "default", "-o", "run.json", "--launches", "1"]
    words += ["--candidate", "flashbench", "--candidate", "mine:without_dk"]
    done = forks.run([*words, "--candidate", "mine:detached"], tmp_path, {})
    assert done.returncode == 1, done.stderr
    run = runfile.read(tmp_path / "run.json")
    assert run.version == 2
    (case,) = run.cases
    assert case.id == "attention-backward-b1-h2-q32-d32-fp32-causal-cpu"
    results = {result.candidate: result for result in run.launches[0].results}
    fates = {name: result.status for name, result in results.items()}
    assert fates == {
        "sdpa": "ok",
        "flashbench": "ok",
        "without_dk": "wrong",
        "detached": "unsupported",
    }
    assert results["without_dk"].reason.startswith("dk: max error")
    assert "not differentiable" in results["detached"].reason
    assert "SDPA us" in done.stdout
    both = forks.run(["compare", "run.json", "run.json"], tmp_path, {})
    assert both.returncode == 1, both.stderr
    assert case.id in both.stdout


def test_the_history_keeps_operations_apart(tmp_path: Path) -> None:
    """The same shape of attention and of its gradients are two series, with a page each."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    for name in ("attention", "attention-backward"):
        case = operations.named(name).case(TINY, "fp16", "cpu", {"mask": "full"})
        run = make_run(np.random.default_rng(0), cases=[case], launches=8, samples=4, speedup=2.0)
        run.version = runfile.version_for(run.cases)
        run.candidates[0].build.commit = head.stdout.strip()
        runfile.save(run, tmp_path / f"{name}.json")
        done = forks.run(["record", "--machine", "box", f"{name}.json"], tmp_path, {})
        assert done.returncode == 0, done.stderr
    assert "2 series" in forks.run(["history"], tmp_path, {}).stdout
    assert forks.run(["publish", "-o", "site"], tmp_path, {}).returncode == 0
    assert len(list((tmp_path / "site" / "cases").iterdir())) == 2


@BOTH
@pytest.mark.parametrize("mask", ["full", "causal", "bottom_right"])
def test_ids_are_read_back(name: str, mask: str) -> None:
    """A case is found by its id, alone and in a longer name, with the counts of seven products."""
    case = operations.named(name).case(TINY, "bf16", "cpu", {"mask": mask})
    assert operations.parse_case(case.id) == case
    assert find_case(f"test_it[{case.id}-mine]") == case.id
    forward = operations.ATTENTION.case(TINY, "bf16", "cpu", {"mask": mask})
    products = {"attention-backward": 5, "attention-forward-backward": 7}[name]
    assert 2 * case.flops == products * forward.flops


@BOTH
def test_our_attention_is_right(name: str) -> None:
    """Revisions are checked on named cases of the gradients as on those of attention."""
    cases = [
        operations.named(name).case(TINY, dtype, "cpu", {"mask": mask}).id
        for dtype, mask in (("fp32", "causal"), ("bf16", "full"))
    ]
    found = check_named(attention, "flashbench:attention", cases)
    assert not found.wrong
    assert [case.id for case in found.right] == cases


@pytest.mark.parametrize(("name", "forwards"), [("attention-backward", 1), (None, 4)])
def test_the_forward_is_timed_only_if_it_is_part_of_the_operation(
    name: str | None, forwards: int
) -> None:
    """The forward runs once, however often the gradients alone are computed."""
    operation = operations.named(name or "attention-forward-backward")
    calls = []

    def counted(*qkv: Tensor, **words: Any) -> Tensor:
        calls.append(qkv)
        return scaled_dot_product_attention(*qkv, **words)

    case = operation.case(TINY, "fp32", "cpu", {"mask": "full"})
    call = Problem(case, 0, full_check=True).bind(counted)
    for _ in range(4):
        call()
    assert len(calls) == forwards


FIRST_GRADIENTS = """
import torch
from torch.nn.functional import scaled_dot_product_attention
from flashbench import operations
from flashbench.revisions import traces

def main():
    operation = operations.named("attention-backward")
    case = operation.case(operation.preset("tiny")[0], "fp32", "cpu", {"mask": "full"})
    operation.import_ahead()
    inputs = operation.inputs(case, torch.float32, torch.Generator())
    call = operation.bind(scaled_dot_product_attention, inputs)
    before = traces.state()
    call()
    print(traces.difference(before, traces.state()))

main()
"""


def test_the_first_gradients_leave_no_traces() -> None:
    """What torch imports for them is imported ahead: no revision is blamed for it."""
    command = [sys.executable, "-c", FIRST_GRADIENTS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


@BOTH
@pytest.mark.parametrize("place", range(3))
def test_one_wrong_gradient_is_named(name: str, place: int) -> None:
    """Each gradient is checked by itself: a sign, or a missing one, is found and named."""
    case = operations.named(name).case(TINY, "fp32", "cpu", {"mask": "causal"})
    with torch.no_grad():
        problem = Problem(case, 0, full_check=True)

        def negative(*qkv: Tensor, **words: Any) -> Tensor:
            given = list(qkv)
            given[place] = given[place] + 0
            given[place].register_hook(torch.neg)
            return scaled_dot_product_attention(*given, **words)

        def missing(*qkv: Tensor, **words: Any) -> Tensor:
            given = [x.detach() if i == place else x for i, x in enumerate(qkv)]
            return scaled_dot_product_attention(*given, **words)

        for fault, said in ((negative, "exceeds the bound"), (missing, "returned NoneType")):
            with pytest.raises(WrongError, match=f"^d{'qkv'[place]}: .*{said}"):
                check_candidate(problem, problem.bind(fault), lambda: None)


@BOTH
def test_what_has_no_gradient_to_check_is_refused(name: str) -> None:
    """One query or key leaves rounding errors alone in dq and dk; decoding has no preset."""
    operation = operations.named(name)
    for shape in ("b1-h8-q1-k512-d64", "b1-h8-q512-k1-d64"):
        with pytest.raises(InvalidInputError, match="needs 2 queries and 2 keys"):
            operation.parse(shape)
    assert len(operation.preset("grid")) == 16
    with pytest.raises(InvalidInputError, match="no preset 'models'; presets are tiny"):
        operation.preset("models")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"mask":"full"', '"mask":"some"', "invalid case"),
        ('"mask":"full"', '"other":"full"', "not the sizes and options of attention-backward"),
        ('"head_dim":32', '"dim":32', "not the sizes and options of attention-backward"),
        ('"kv_heads":2', '"kv_heads":3', "must be a multiple of kv heads"),
    ],
)
def test_an_impossible_case_of_a_file_is_refused(
    old: str, new: str, said: str, tmp_path: Path
) -> None:
    """Cases in files are untrusted: sizes and options are those that the operation has."""
    case = operations.named("attention-backward").case(TINY, "fp32", "cpu", {"mask": "full"})
    run = make_run(np.random.default_rng(0), cases=[case], launches=1, samples=2)
    run.version = runfile.version_for(run.cases)
    runfile.save(run, tmp_path / "a.json")
    (tmp_path / "a.json").write_text((tmp_path / "a.json").read_text().replace(old, new))
    with pytest.raises(InvalidInputError, match=said):
        runfile.read(tmp_path / "a.json")
