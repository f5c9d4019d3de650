"""The plan of a call: the cases that it names, or else the settings of the project."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from flashbench import operations
from flashbench.case import Case
from flashbench.errors import InvalidInputError
from flashbench.measuring.requested import requested_fields

Cases = str | Case | Sequence[str | Case]
CausalName = Literal["both", "causal", "full", "bottom_right"]
LayoutName = Literal["bhsd", "bshd", "sbhd"]


def plan_fields(options: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a Plan that say what to measure, and how. options: of the command, with those
    that are given; given: what the call names, `cases` among it. Raises InvalidInputError."""
    if "cases" not in given:
        return requested_fields(dict(options))
    operation, asked = operations.named(options["operation"]), _listed(given["cases"])
    listed = [found for one in asked if (found := _case(one)) is not None]
    fields = {**options, "presets": (), "shapes": ()}
    if not listed:
        shapes = [shape for one in asked for shape in _shapes(operation, str(one))]
        return requested_fields(fields) | {"shapes": shapes}
    if len(listed) < len(asked) or given.keys() & {"dtypes", "causal", "layout"}:
        raise InvalidInputError(
            "an id names the whole case: drop shape, preset, dtype, mask and layout"
        )
    chosen = {"chosen": listed, "shapes": (), "dtypes": None, "options": None}
    return requested_fields({**fields, "device": listed[0].device}) | chosen


def _shapes(operation: operations.Operation, text: str) -> Sequence[operations.Sizes]:
    return operation.preset(text) if text in operation.presets else operation.parse(text)


def _listed(cases: Cases) -> list[str | Case]:
    asked = [cases] if isinstance(cases, str | Case) or not isinstance(cases, Iterable) else cases
    asked = list(asked)
    for one in asked:
        if not isinstance(one, str | Case):
            raise InvalidInputError(f"cases: {one!r:.80} is no preset, shape or case")
    if not asked:
        raise InvalidInputError("no cases: name a preset, a shape or a case")
    return asked


def _case(one: str | Case) -> Case | None:
    """The case that an id names; None for a shape or preset."""
    if isinstance(one, Case):
        return one
    return operations.parse_case(one) if one.endswith(("-cpu", "-cuda")) else None
