"""Wrong, broken and dishonest candidates are detected and reported; correct ones are measured."""

from collections.abc import Iterator

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from flashbench.candidates import load, parse_candidate
from flashbench.case import Case
from flashbench.measuring.clock import Call, MetricUnavailableError, Sampler
from flashbench.measuring.clock_cpu import CpuClock
from flashbench.measuring.inspect import inspect_case
from flashbench.measuring.measurement import MeasuringOptions, measure_case
from flashbench.measuring.problem import Problem
from flashbench.operations import parse_case
from flashbench.operations.attention.operation import attention_case
from flashbench.operations.attention.shapes import parse_shape
from flashbench.runfile import Candidate, Result
from tests.measuring import candidates_for_tests

CASE = attention_case(parse_shape("1,2,16,32"), "fp32", True, "cpu")
OPTIONS = MeasuringOptions(samples=4, seed=1)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """These cases are tiny: threads that wait for each other would take all the time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def measured(
    *functions: str, case: Case = CASE, options: MeasuringOptions = OPTIONS
) -> list[Result]:
    candidates_for_tests._calls = 0
    candidates = [Candidate(name="sdpa", spec="sdpa", baseline=True)]
    candidates += [parse_candidate(f"tests.measuring.candidates_for_tests:{f}") for f in functions]
    loaded = [load(candidate)[0] for candidate in candidates]
    return measure_case(case, loaded, CpuClock(1e-4), options)


def test_right_candidate_is_measured() -> None:
    """A right candidate gets its error, its times in pairs with SDPA's, and its memory."""
    for result in measured("correct"):
        assert result.status == "ok", result.reason
        assert result.correctness is not None
        assert result.correctness.max_error is not None
        assert result.correctness.max_error <= result.correctness.bound
        assert result.correctness.rows_checked == 0
        assert [timing.metric for timing in result.timings] == ["wall"]
        assert result.timings[0].block == [0, 1, 2, 3]
        assert all(seconds > 0 for seconds in result.timings[0].seconds)
        assert result.first_call_seconds is not None
        assert result.first_call_seconds > 0


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("wrong", "exceeds the bound"),
        ("wrong_when_causal", "exceeds the bound"),
        ("not_a_number", "NaN or Inf"),
        ("wrong_shape", "shape"),
        ("changes_inputs", "changed its inputs"),
        ("answers_from_cache", "cached"),
        ("answers_from_versioned_cache", "cached"),
        ("reuses_memory", "same memory again"),
        ("returns_stale_memory", ""),
        ("answers_in_place", "shares memory with an input"),
        ("returns_subclass", "LazyTensor"),
        ("returns_negated_view", "lazy"),
        ("changes_threads", "threads: 1 -> 3"),
        ("lazy_when_timed", "the output of the timed calls"),
        ("subclass_when_timed", "the output of the timed calls (wall): returned LazyTensor"),
    ],
)
def test_wrong_or_dishonest_candidate_gets_no_time(function: str, words: str) -> None:
    """Each way to be wrong is named and costs its speed, but no other candidate anything."""
    sdpa, bad, good = measured(function, "correct")
    assert bad.status == "wrong"
    assert words in bad.reason
    assert bad.timings == []
    assert (sdpa.status, good.status) == ("ok", "ok")
    assert sdpa.timings[0].block == good.timings[0].block == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("function", "status", "words"),
    [
        ("raises", "error", "RuntimeError: first line"),
        ("raises_when_timed", "error", "tired"),
        ("exits_from_python", "error", "SystemExit: 7"),
        ("declines", "unsupported", "only on Sundays"),
        ("takes_all_memory", "out_of_memory", "allocate"),
    ],
)
def test_failing_candidate_is_recorded(function: str, status: str, words: str) -> None:
    """What a candidate raises becomes its status and one line; the others are measured."""
    sdpa, bad, good = measured(function, "correct")
    assert bad.status == status
    assert words in bad.reason
    assert "\n" not in bad.reason
    assert bad.timings == []
    assert (sdpa.status, good.status) == ("ok", "ok")


def test_later_launches_check_sampled_rows() -> None:
    """Without the full check, rows are sampled, the last among them, and a wrong row is found."""
    case = attention_case(parse_shape("1,2,200,32"), "fp32", True, "cpu")
    options = MeasuringOptions(samples=2, seed=1, full_check=False)
    sdpa, good, bad = measured("correct", "wrong", case=case, options=options)
    assert sdpa.correctness is not None
    assert sdpa.correctness.rows_checked == 64
    assert good.status == "ok", good.reason
    assert bad.status == "wrong"


class OneBlockClock(CpuClock):
    """A clock whose metric is lost in the second block."""

    def sampler(self, metric: str, call: Call) -> Sampler:
        sampler = super().sampler(metric, call)
        take, blocks = sampler.block, iter([1])

        def block(samples: int) -> list[float]:
            if next(blocks, None) is None:
                raise MetricUnavailableError("lost")
            return take(samples)

        sampler.block = block  # type: ignore[method-assign]
        return sampler


class RestingClock(CpuClock):
    """A clock that notes when it lets threads rest."""

    def __init__(self, noted: list[str]) -> None:
        super().__init__(1e-4)
        self._noted = noted

    def rest(self) -> None:
        self._noted.append("rest")


@pytest.mark.parametrize("others_turn", [False, True])
def test_threads_rest_unless_torch_alone_is_timed(others_turn: bool) -> None:
    """Before each candidate's samples, except between two backends of SDPA, which share threads;
    after another process's turn before these too."""
    names = [Candidate(name=name, spec=name, baseline=True) for name in ("sdpa", "sdpa:math")]
    names.append(parse_candidate("tests.measuring.candidates_for_tests:correct"))
    noted: list[str] = []

    def tell(candidate: str, doing: str) -> None:
        if doing == "wall":
            noted.append(candidate)

    def turn() -> bool:
        noted.append("turn")
        return others_turn

    loaded = [load(one)[0] for one in names]
    measure_case(CASE, loaded, RestingClock(noted), OPTIONS, tell, turn)
    torch_before = False
    for place, what in enumerate(noted):
        if what == "turn":
            torch_before &= not others_turn
        elif what != "rest":
            rested = noted[place + 1 : place + 2] == ["rest"]
            assert rested == (not torch_before or what == "correct")
            torch_before = what != "correct"
    assert 0 < noted.count("rest") < 3 * OPTIONS.samples


def test_metric_that_is_lost_is_absent_with_its_reason() -> None:
    """An unavailable metric is not a failure of the candidate, and leaves no partial times."""
    candidate = load(parse_candidate("tests.measuring.candidates_for_tests:correct"))[0]
    result = measure_case(CASE, [candidate], OneBlockClock(1e-4), OPTIONS)[0]
    assert (result.status, result.timings, result.reason) == ("ok", [], "no wall: lost")


def test_grouped_heads_and_unequal_lengths() -> None:
    """Grouped-query heads and a key length of its own are measured, sampled rows included."""
    case = attention_case(parse_shape("b1-h4-g2-q100-k30-d32"), "bf16", True, "cpu")
    for full in (True, False):
        results = measured("falls_back", case=case, options=MeasuringOptions(2, 1, full_check=full))
        assert results[0].status == "ok", results[0].reason


def test_spent_budget_keeps_no_half_pairs() -> None:
    """With no time left nothing is timed, and the result says that the budget was spent."""
    for result in measured("correct", options=MeasuringOptions(samples=4, seed=1, deadline=0.0)):
        assert result.status == "over_budget"
        assert all(not timing.seconds for timing in result.timings)


def test_peak_memory_counts_what_a_call_needs() -> None:
    """The formula that writes every score to memory needs more than the scores take."""
    case = attention_case(parse_shape("1,4,1024,32"), "fp32", False, "cpu")
    scores, output = 4 * 1024 * 1024 * 4, 4 * 1024 * 32 * 4
    texts = ["tests.measuring.candidates_for_tests:falls_back"]
    texts += ["tests.measuring.candidates_for_tests:correct"]
    loaded = [load(parse_candidate(text))[0] for text in texts]
    found = inspect_case(case, loaded, 1, lambda candidate, doing: None)
    sdpa, formula = found["falls_back"].peak_memory_bytes, found["correct"].peak_memory_bytes
    assert sdpa is not None
    assert formula is not None
    assert output <= sdpa < scores
    assert 2 * scores <= formula < 4 * scores


def test_default_that_is_right_by_luck_makes_no_one_wrong() -> None:
    """Where SDPA's default errs less than its math backend, the bound is that of the latter."""
    case = attention_case(parse_shape("1,8,128,64"), "fp32", False, "cpu")
    problem = Problem(case, 4393972674562374115, full_check=False)
    with sdpa_kernel([SDPBackend.MATH]):
        out = scaled_dot_product_attention(*problem.inputs)
    found = problem.check(out, 1)
    assert found.correct
    assert found.bound >= 2 * found.max_error
    assert not problem.check(out * (1 + 3e-5), 1).correct


def test_luck_of_few_rows_makes_no_one_wrong() -> None:
    """SDPA's gradients of four rows, with the head dims in another order, are right by the rule."""
    case = parse_case("attention-backward-b1-h2-g1-q2-k147-d64-fp32-causal-cpu")
    for seed in (1, 14):  # 2 of the first 16 were wrong without other orders
        problem = Problem(case, seed, full_check=True)
        backward = [x.flip(3) for x in problem.inputs]
        leaves = [x.requires_grad_() for x in backward[:3]]
        out = scaled_dot_product_attention(*leaves, is_causal=True, enable_gqa=True)
        found = [x.flip(3) for x in torch.autograd.grad(out, leaves, backward[3])]
        assert problem.check(tuple(found), 1).correct
        assert not problem.check(tuple(x * (1 + 3e-5) for x in found), 1).correct
