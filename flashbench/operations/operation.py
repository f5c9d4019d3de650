"""Operation: what is computed, for everything that asks: cases, inputs, truth, baselines, words.

Reading a case, its counts and its words needs no torch. What a worker calls gets tensors.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from flashbench.callables import LAYOUTS
from flashbench.case import BYTES_PER_ELEMENT, DTYPES, Case, DtypeName
from flashbench.errors import InvalidInputError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    Output = Tensor | tuple[Tensor, ...]

Sizes = Mapping[str, int]
Options = Mapping[str, str]
_ID = re.compile(  # without its label
    rf"(?P<sizes>[a-z_0-9-]+)-(?P<dtype>{'|'.join(DTYPES)})(?P<options>(-[a-z_]+)*)-(?P<device>cpu|cuda)"
)
_SIZE = re.compile(r"([a-z_]+)([0-9]{1,15})")
_TOKEN = re.compile(r"(?:(?P<name>[a-z_][a-z0-9_]*)=)?(?P<value>[0-9]{1,15})")
NO_OPTIONS: Options = {}
_MOST_SHAPES = 100_000


@dataclass(frozen=True)
class Inputs:
    """What a candidate is called with: `call(*tensors, **keywords)`."""

    tensors: "tuple[Tensor, ...]"
    keywords: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Baseline:
    """What candidates are measured against. scope: entered around its calls, at no cost of time."""

    call: "Callable[..., Output]"
    scope: Callable[[], AbstractContextManager[None]] = nullcontext


class Operation:
    """A new operation sets `name`, `sizes` and `presets`, and defines `inputs`, `truth`, `eager`,
    `flops` and `elements`."""

    name: str
    import_root: str = ""  # of a project's: where its module is searched first
    sizes: tuple[str, ...]
    # Texts of `parse`, by name; `headline` is measured unless something else is asked for.
    presets: Mapping[str, Sequence[str]]
    # Options of a grid: every shape and dtype is measured with each.
    options: Sequence[Options] = (NO_OPTIONS,)
    # The names of baselines: one of the default, and of others after a colon.
    baseline: str = "torch:eager"
    # Other baselines that a device offers, and those measured unless others are asked for.
    backends: Mapping[str, Sequence[str]] = {"cpu": ("compile",), "cuda": ("compile",)}
    auto_backends: Mapping[str, Sequence[str]] = {"cpu": (), "cuda": ("compile",)}
    # The result's dimension whose rows the truth can be computed for alone; None: only all of it.
    row_dimension: int | None = None
    # Whether `change` negates the result, so that the truth need not be computed again.
    change_negates: bool = False
    # Whether each timed call reads all inputs: other values at their places change its result.
    reads_all: bool = True
    # The names of the results if a call returns a tuple of several; each is checked by itself.
    results: tuple[str, ...] = ()
    # Another operation whose candidates are those of this one too.
    candidates_of: str = ""

    # Without torch.

    def parse(self, text: str) -> list[Sizes]:
        """The shapes of `rows=1024,4096,dim=4096`: a grid of each name's values, in any order."""
        values: dict[str, list[int]] = {}
        name = ""
        for part in re.split("[ ,]+", text.strip()):
            token = _TOKEN.fullmatch(part)
            name = (token and token["name"]) or name
            if token is None or name not in self.sizes or int(token["value"]) < 1:
                raise self._bad(text, f"{part[:40]!r} is not a size")
            if token["name"] and name in values:
                raise self._bad(text, f"{name} appears twice")
            values.setdefault(name, []).append(int(token["value"]))
        if missing := [one for one in self.sizes if one not in values]:
            raise self._bad(text, f"{', '.join(missing)} is missing")
        shapes: list[dict[str, int]] = [{}]
        for one in self.sizes:
            shapes = [{**shape, one: value} for shape in shapes for value in values[one]]
            if len(shapes) > _MOST_SHAPES:
                raise self._bad(text, "too many shapes")
        return list(shapes)

    def _bad(self, text: str, why: str) -> InvalidInputError:
        example = ",".join(f"{name}=1024" for name in self.sizes)
        return InvalidInputError(
            f"invalid shape {text[:100]!r} of {self.name} ({why}); write {example}, with more "
            "values of a size after commas"
        )

    def preset(self, name: str) -> list[Sizes]:
        """The shapes of a preset. Raises InvalidInputError for an unknown one."""
        if name not in self.presets:
            known = ", ".join(self.presets)
            raise InvalidInputError(f"{self.name} has no preset {name!r}; presets are {known}")
        return [sizes for text in self.presets[name] for sizes in self.parse(text)]

    def requested(self, causal: str, layout: str) -> Sequence[Options]:
        """The options of a grid. causal, layout: as in the flags, which are for attention."""
        for flag, value, usual in (("causal", causal, "both"), ("layout", layout, LAYOUTS[0])):
            if value != usual:
                raise InvalidInputError(f"--{flag} {value} is for attention, not for {self.name}")
        return self.options

    def case(
        self, sizes: Sizes, dtype: DtypeName, device: str, options: Options = NO_OPTIONS
    ) -> Case:
        """One case. Raises ValueError for sizes that do not fit together."""
        flops, elements, exponentials = self.counts(sizes, options)
        return Case(
            self.name,
            dict(sizes),
            dtype,
            device,
            id=self.id(sizes, dtype, device, options),
            options=dict(options),
            flops=flops,
            bytes=elements * BYTES_PER_ELEMENT[dtype],
            exponentials=exponentials,
        )

    def grid(
        self,
        shapes: Sequence[Sizes],
        dtypes: Sequence[DtypeName],
        options: Sequence[Options],
        device: str,
    ) -> list[Case]:
        """Every combination, without repeats, in this order."""
        cases = [
            self.case(sizes, dtype, device, one)
            for sizes in shapes
            for dtype in dtypes
            for one in options
        ]
        return list(dict.fromkeys(cases))

    def id(self, sizes: Sizes, dtype: DtypeName, device: str, options: Options) -> str:
        """Name of a case in files, tables and flags, such as rms-norm-rows64-dim128-fp16-cpu."""
        return case_id(self.name, sizes, dtype, device, options)

    def parse_id(self, text: str) -> Case:
        """Read a case id; InvalidInputError with the accepted form."""
        found = _ID.fullmatch(text.removeprefix(f"{label(self.name)}-"))
        values = {} if found is None else {n: int(v) for n, v in _SIZE.findall(found["sizes"])}
        if found and tuple(values) == self.sizes and min(values.values()) > 0:
            dtype: DtypeName = next(name for name in DTYPES if name == found["dtype"])
            for options in self.options:
                case = self.case(values, dtype, found["device"], options)
                if case.id == text:
                    return case
        named = [f"{name}1024" for name in self.sizes]
        example = "-".join([label(self.name), *named, "fp16", *self.options[0].values(), "cpu"])
        raise InvalidInputError(
            f"invalid case {text[:100]!r}; write it as in tables, such as {example}"
        )

    def counts(self, sizes: Sizes, options: Options) -> tuple[int, int, int]:
        """Operations, elements and exponentials, as whole numbers."""
        exponentials = self.exponentials(sizes, options)
        return round(self.flops(sizes, options)), round(self.elements(sizes)), round(exponentials)

    def flops(self, sizes: Sizes, options: Options) -> float:
        """Floating-point operations that the definition needs, rounded to a whole number."""
        raise NotImplementedError

    def elements(self, sizes: Sizes) -> int:
        """Elements to move at least: inputs read once, the result written once."""
        raise NotImplementedError

    def exponentials(self, sizes: Sizes, options: Options) -> int:
        """Exponentials that the definition needs."""
        return 0

    def small_shapes(self) -> Sequence[Sizes]:
        """Small shapes to check a callable on, the first of them that it accepts."""
        return self.preset("tiny")

    # Words, for people.

    def parts(self, case: Case) -> dict[str, str | int]:
        """What rows of tables are sorted and grouped by."""
        shape = case.id.split(f"-{case.dtype}-")[0]
        known = {"dtype": case.dtype, **case.options, "device": case.device}
        return {"shape": shape, **case.sizes, **known}

    def order(self, case: Case) -> tuple[object, ...]:
        """The sort key among cases with equal work."""
        return (*case.sizes.values(), case.dtype, *case.options.values(), case.device)

    def in_words(self, case: Case) -> str:
        """`rows 4096, dim 1024, bf16`, without the device."""
        sizes = [f"{name} {value}" for name, value in case.sizes.items()]
        return ", ".join([*sizes, *case.options.values(), case.dtype])

    def grid_in_words(self, cases: Sequence[Case]) -> str:
        """The ranges of a grid's sizes, its dtypes and options."""
        parts = [span({case.sizes[name] for case in cases}, name) for name in self.sizes]
        parts.append(listed(sorted({case.dtype for case in cases})))
        parts += sorted({value for case in cases for value in case.options.values()})
        return "; ".join(parts)

    def shape_panel(self, case: Case) -> tuple[tuple[str | int, ...], list[str]]:
        """The sort key of a panel of shapes, and the words of its title."""
        return tuple(case.options.values()), list(case.options.values())

    def shape_in_panel(self, case: Case) -> str:
        """The label of a row: what the panel's title leaves out."""
        return "-".join(f"{name}{value}" for name, value in case.sizes.items())

    shape_caption: str = "A row is a shape."
    # What a figure of scaling has along x, in words; "": it has no such figure.
    scales_with: str = ""

    def scale(self, case: Case) -> int:
        """The case's place along x."""
        return 0

    def family(self, case: Case, *, strict: bool) -> tuple[str, ...]:
        """What cases on one line share; strict: everything else."""
        return ()

    # In a worker.

    def import_ahead(self) -> None:
        """Import what the rest needs, for processes that fork and then are timed."""
        self.load_baseline("")

    def inputs(self, case: Case, dtype: "torch.dtype", random: "torch.Generator") -> Inputs:
        """Inputs on the case's device, drawn from the generator there."""
        raise NotImplementedError

    def eager(self) -> "Callable[..., Tensor]":
        """Torch's own implementation, to be called as candidates are."""
        raise NotImplementedError

    def bind(self, call: "Callable[..., Output]", inputs: Inputs) -> "Callable[[], Output]":
        """What is timed: a candidate's call with these inputs. What it prepares in its first call,
        or the first one on a CUDA stream, is not timed."""
        return partial(call, *inputs.tensors, **inputs.keywords)

    def truth(self, case: Case, inputs: Inputs, rows: "Tensor | None" = None) -> "Output":
        """The result in float64. rows: only those of `row_dimension`, ascending."""
        raise NotImplementedError

    def truth_work(self, case: Case) -> int:
        """Multiply-adds of the whole truth."""
        return case.flops // 2

    def change(self, tensors: "Sequence[Tensor]") -> None:
        """Change the inputs in place, past torch's version counters, so that the result differs
        everywhere; a second call takes that back, bit for bit."""
        tensors[0].data.neg_()

    def rounding(self, case: Case, expected: "Tensor", dtype: "torch.dtype") -> float:
        """The error of rounding these finite results once."""
        from flashbench.operations.error_rule import of_largest

        return of_largest(expected, dtype)

    def baseline_results(self, case: Case, inputs: Inputs) -> "list[Output]":
        """Results in the case's dtype; the one farthest from the truth says what error is usual."""
        return [self.bind(self.load_baseline("").call, inputs)()]

    def load_baseline(self, backend: str) -> Baseline:
        """Load one of `backends`; "": the default."""
        if not backend:
            return Baseline(self.eager())
        import torch

        return Baseline(torch.compile(self.eager(), dynamic=False))

    def baseline_refuses(self, error: Exception) -> bool:
        """Whether a baseline's error says that it does not support a case."""
        return False


def label(operation: str) -> str:
    """How ids begin: `rms-norm`, or `fused-rope` of `ops:fused_rope`."""
    return operation.rpartition(":")[2].replace("_", "-").lower()


def case_id(operation: str, sizes: Sizes, dtype: str, device: str, options: Options) -> str:
    """The name of a case of any operation but attention."""
    parts = [f"{name}{value}" for name, value in sizes.items()]
    return "-".join([label(operation), *parts, dtype, *options.values(), device])


def span(numbers: set[int], what: str) -> str:
    """`heads 1 to 8`."""
    low, high = min(numbers), max(numbers)
    return f"{what} {low}" if low == high else f"{what} {low} to {high}"


def listed(names: Sequence[str]) -> str:
    """`a, b and c`, each once."""
    names = list(dict.fromkeys(names))
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
