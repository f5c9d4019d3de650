"""The cases that a call names, or else the settings of the project."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from flashbench import operations, project_cases
from flashbench.callables import LAYOUTS
from flashbench.case import Case, DtypeName
from flashbench.errors import InvalidInputError
from flashbench.pyproject import find_pyproject, read_pyproject

Cases = str | Case | Sequence[str | Case]
Causal = Literal["both", "causal", "full", "bottom_right"]
Layout = Literal["bhsd", "bshd", "sbhd"]


def plan_of_cases(
    operation: operations.Operation,
    cases: Cases | None,
    dtypes: Sequence[DtypeName] | None,
    causal: Causal | None,
    layout: Layout | None,
    device: str,
    own: project_cases.ProjectCases | None = None,
) -> dict[str, Any]:
    """The fields of a Plan that say what to measure. own: where nothing is asked, None: the cases
    of the project. Raises InvalidInputError."""
    if own is None:
        file = find_pyproject(Path.cwd())
        own = project_cases.ANY if file is None else project_cases.read(file, read_pyproject(file))
    asked = _asked(cases, own)
    listed = [found for one in asked if (found := _case(one)) is not None]
    if listed:
        if len(listed) < len(asked) or any((dtypes, causal, layout)):
            raise InvalidInputError(
                "an id names the whole case: drop shape, preset, dtype, mask and layout"
            )
        return {"chosen": listed, "device": listed[0].device, "shapes": []}
    texts = [str(one) for one in asked]
    return {
        "device": device,
        "shapes": [
            shape
            for text in texts
            for shape in (
                operation.preset(text) if text in operation.presets else operation.parse(text)
            )
        ],
        "dtypes": list(dtypes or own.dtype) or None,
        "options": operation.requested(
            causal or own.causal or "both", layout or own.layout or LAYOUTS[0]
        ),
    }


def _asked(cases: Cases | None, own: project_cases.ProjectCases) -> list[str | Case]:
    if cases is None:
        return [*own.preset, *own.shape] or ["headline"]
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
