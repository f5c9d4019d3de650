"""The inputs of a case and their correct results."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from flashbench import operations
from flashbench.candidates import reason
from flashbench.case import Case
from flashbench.errors import NotMeasuredError
from flashbench.measuring.clock import Call, Output
from flashbench.measuring.plan import derive_seed
from flashbench.operations import error_rule
from flashbench.operations.operation import Inputs, Operation

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}

# The place of their answer among those of both signs.
_RENEWED = 0
# Rows of the result checked if not all are.
SAMPLED_ROWS = 64
# Most multiply-adds of the float64 reference on the CPU per case (some seconds); larger cases are
# checked on sampled rows.
_MAX_CPU_WORK = 1 << 34


_CPU_OUT_OF_MEMORY = re.compile(r"DefaultCPUAllocator|can't allocate memory|not enough memory")


class OperationError(NotMeasuredError):
    """A method of the operation raises, or returns what it must not: no candidate is to blame."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether it says that the device or the machine lacks memory."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and _CPU_OUT_OF_MEMORY.search(str(error)) is not None
    )


@contextmanager
def _asking(operation: Operation, method: str) -> Iterator[None]:
    """Name the operation and its method in what it raises, unless memory is lacking."""
    try:
        yield
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise _at_fault(operation, f"{method} raises {reason(error, [])}") from error


def _at_fault(operation: Operation, why: str) -> OperationError:
    return OperationError(f"operation {operation.name}: {why}")


def inputs_of(case: Case, seed: int) -> Inputs:
    """The tensors and keywords that a candidate is called with."""
    random = torch.Generator(device=case.device).manual_seed(derive_seed(seed, case.id))
    operation = operations.of(case)
    with _asking(operation, "inputs"):
        found = operation.inputs(case, DTYPES[case.dtype], random)
    if not isinstance(found, Inputs):
        raise _at_fault(operation, f"inputs returns {type(found).__name__}, not Inputs")
    return found


class Problem:
    """The inputs of a case, and the float64 answer to compare with.

    `flip` changes the inputs in place to those of another known answer, `renewed` to any others:
    this exposes a candidate that answers from memory. renews: whether the check should, once.
    """

    def __init__(self, case: Case, seed: int, full_check: bool) -> None:
        self.case, self._seed = case, seed
        self._operation = operations.of(case)
        self.renews = full_check and self._operation.reads_all
        self._inputs = inputs_of(case, seed)
        self._original = tuple(x.clone() for x in self.inputs)
        self.sign = 1
        results = self._baseline_results()
        first = self.parts(results[0])
        self._shapes, self.dtypes = [x.shape for x in first], [x.dtype for x in first]
        self._rows = self._rows_to_check(full_check, seed)
        self._answers = {1: self._answer(results)}
        if not self._operation.change_negates:
            self.flip()
            self._answers[-1] = self._answer(self._baseline_results())
            self.flip()

    def bind(self, call: Callable[..., Output]) -> Call:
        """A candidate's call with these inputs, as it is timed."""
        return self._operation.bind(call, self._inputs)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the results; empty for a single one, which needs none."""
        return self._operation.results

    def parts(self, out: Any) -> tuple[Any, ...]:
        """The results in what a call returned."""
        return out if self.names and isinstance(out, tuple) else (out,)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that a candidate is called with."""
        return self._inputs.tensors

    @property
    def keywords(self) -> dict[str, Any]:
        """The keyword arguments of the call."""
        return self._inputs.keywords

    @property
    def rows_checked(self) -> int:
        """Rows of the result compared, each over the other dimensions; 0: all of them."""
        return 0 if self._rows is None else len(self._rows)

    def flip(self) -> None:
        """Change the inputs in place, or back, without touching torch's version counter."""
        with _asking(self._operation, "change"):
            self._operation.change(self.inputs)
        self.sign = -self.sign

    @contextmanager
    def renewed(self) -> Iterator[int]:
        """Inputs of other values at the same places, without touching torch's version counters, and
        a `sign` of theirs for `check`, on sampled rows. Afterwards they are as at first."""
        rows, self._rows = self._rows, self._rows_to_check(full=False, seed=self._seed)
        other = inputs_of(self.case, derive_seed(self._seed, "other values"))
        for x, value in zip(self.inputs, other.tensors, strict=True):
            x.data.copy_(value)
        del other
        try:
            if _RENEWED not in self._answers:
                self._answers[_RENEWED] = self._answer(self._baseline_results())
            yield _RENEWED
        finally:
            self.restore()
            self._rows = rows

    def unchanged(self) -> bool:
        """Whether the inputs are unchanged, bit for bit (up to `flip`)."""
        original = self._original
        if self.sign < 0:
            original = tuple(x.clone() for x in original)
            self._operation.change(original)
        return all(torch.equal(x, was) for x, was in zip(self.inputs, original, strict=True))

    def restore(self) -> None:
        """Restore the inputs after a candidate changed them."""
        for x, original in zip(self.inputs, self._original, strict=True):
            x.data.copy_(original)
        self.sign = 1

    def poison(self) -> None:
        """Leave NaN where the allocator will look first for memory of the results' sizes.

        malloc has many places for small blocks, so more of those are filled, up to a megabyte.
        """
        blocks = []
        for shape, dtype in zip(self._shapes, self.dtypes, strict=True):
            size = shape.numel() * dtype.itemsize
            for _ in range(max(3, min(32, (1 << 20) // max(size, 1)))):
                blocks.append(torch.full(shape, torch.nan, dtype=dtype, device=self.case.device))
        del blocks

    def check(self, out: Output, sign: int) -> error_rule.Accuracy:
        """Compare an output that was computed with `sign`, by the operation's rule: the accuracy
        of the first wrong result, or else of the one nearest to its bound."""
        found = []
        for place, part in enumerate(self.parts(out)):
            accuracy = self._check_one(part, place, sign)
            if not accuracy.correct:
                named = f"{self.names[place]}: " if self.names else ""
                return replace(accuracy, reason=named + accuracy.reason)
            found.append(accuracy)
        return max(found, key=lambda one: one.max_error / one.bound if one.bound else 0.0)

    def _check_one(self, out: Tensor, place: int, sign: int) -> error_rule.Accuracy:
        if out.shape != self._shapes[place]:
            expected = tuple(self._shapes[place])
            return error_rule.Accuracy(
                float("inf"), 0.0, f"shape {tuple(out.shape)}, expected {expected}"
            )
        if self._rows is not None and not bool(torch.isfinite(out).all()):
            return error_rule.Accuracy(float("inf"), 0.0, "NaN or Inf in the output")
        selected = self._select(out)
        if sign not in self._answers:
            selected, sign = -selected, 1
        expected_rows, baseline = self._answers[sign][place]
        return error_rule.check(
            selected, expected_rows, baseline, partial(self._operation.rounding, self.case)
        )

    def _rows_to_check(self, full: bool, seed: int) -> Tensor | None:
        dimension = self._operation.row_dimension
        if dimension is None:
            return None
        work, length = self._operation.truth_work(self.case), self._shapes[0][dimension]
        if full and (self.case.device != "cpu" or work <= _MAX_CPU_WORK):
            return None
        if length <= SAMPLED_ROWS:
            return None
        random = torch.Generator().manual_seed(derive_seed(seed, self.case.id, "rows"))
        rows = torch.randperm(length - 1, generator=random)[: SAMPLED_ROWS - 1]
        # The last row is always among them: it ends the last, often incomplete, tile.
        return torch.cat([rows.sort().values, torch.tensor([length - 1])])

    def _select(self, out: Tensor) -> Tensor:
        dimension = self._operation.row_dimension
        if self._rows is None or dimension is None:
            return out
        return out.index_select(dimension, self._rows.to(out.device))

    def _baseline_results(self) -> list[Output]:
        with _asking(self._operation, "torch's own (eager)"):
            results = self._operation.baseline_results(self.case, self._inputs)
        for result in results:
            parts = self.parts(result)
            if len(parts) != len(self.names or parts) or not all(map(torch.is_tensor, parts)):
                wanted = f"a tuple of {', '.join(self.names)}" if self.names else "a tensor"
                why = f"torch's own (eager) returns {type(result).__name__}, not {wanted}"
                raise _at_fault(self._operation, why)
        return results

    def _answer(self, results: list[Output]) -> list[tuple[Tensor, Tensor]]:
        """For each result: its truth for the current inputs, and the baseline result farthest from
        it."""
        with _asking(self._operation, "truth"):
            truth = self.parts(self._operation.truth(self.case, self._inputs, self._rows))
        own = [self._select(part) for part in self.parts(results[0])]
        returned = ", ".join(
            f"{x.dtype} {tuple(x.shape)}" if torch.is_tensor(x) else type(x).__name__ for x in truth
        )
        expected = ", ".join(f"{torch.float64} {tuple(x.shape)}" for x in own)
        if returned != expected:
            raise _at_fault(self._operation, f"truth returns {returned}, not {expected}")
        answers = []
        for place, expected in enumerate(truth):
            found = [self._select(self.parts(result)[place]) for result in results]
            distances = [0.0]
            if len(found) > 1:
                distances = [float((one - expected).abs().max()) for one in found]
            answers.append((expected, found[distances.index(max(distances))]))
        return answers
