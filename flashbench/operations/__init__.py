"""The operations that flashbench knows, and the cases of any. Does not import torch."""

import contextlib
import re
from collections.abc import Sequence

from flashbench.baseline_names import title
from flashbench.callables import LAYOUTS
from flashbench.case import DTYPES, Case, DtypeName
from flashbench.errors import InvalidInputError
from flashbench.operations.attention.backward import AttentionBackward, AttentionForwardBackward
from flashbench.operations.attention.operation import ATTENTION as ATTENTION
from flashbench.operations.attention.operation import MASKS
from flashbench.operations.matmul import Matmul
from flashbench.operations.norms import LayerNorm, RmsNorm
from flashbench.operations.operation import Inputs as Inputs
from flashbench.operations.operation import Operation as Operation
from flashbench.operations.operation import Options as Options
from flashbench.operations.operation import Sizes as Sizes
from flashbench.operations.operation import label
from flashbench.operations.softmax import Softmax

DEFAULT = ATTENTION.name
BUILT_IN: dict[str, Operation] = {
    one.name: one
    for one in (
        ATTENTION,
        AttentionBackward(),
        AttentionForwardBackward(),
        RmsNorm(),
        LayerNorm(),
        Softmax(),
        Matmul(),
    )
}
# What rows of cases can be sorted and grouped by, where a table has none yet.
PARTS = tuple(ATTENTION.parts(ATTENTION.parse_id("b1-h1-q1-d32-fp32-full-cpu")))
of_projects: dict[str, Operation] = {}  # that this process knows
_LONGEST = 300  # characters of an id
_ANY = re.compile(
    r"(?P<name>[a-z][a-z0-9.-]*?)(?P<sizes>(?:-[a-z_]+[0-9]{1,15})+)-(?P<dtype>fp32|fp16|bf16)"
    r"(?P<options>(?:-[a-z_]+)*)-(?P<device>cpu|cuda)"
)
_OF_ATTENTION = "|".join(name for name in BUILT_IN if name.startswith(f"{DEFAULT}-"))
_OTHERS = "|".join(name for name in BUILT_IN if not name.startswith(DEFAULT))
_WITHIN = re.compile(
    r"\b(?:"
    rf"(?:(?:{_OF_ATTENTION})-)?b\d+-h\d+(?:-g\d+)?-q\d+(?:-k\d+)?-d\d+-(?:fp32|fp16|bf16)"
    rf"-(?:{'|'.join(MASKS)})(?:-(?:{'|'.join(LAYOUTS[1:])}))?|"
    rf"(?:{_OTHERS})(?:-[a-z]{{1,20}}\d{{1,15}}){{1,9}}-(?:fp32|fp16|bf16)"
    r")-(?:cpu|cuda)\b"
)
_SIZE = re.compile(r"([a-z_][a-z_]*)([0-9]{1,15})")


def named(name: str) -> Operation:
    """A built-in operation, or one of a project that this process knows already. Raises
    InvalidInputError."""
    found = BUILT_IN.get(name) or of_projects.get(name)
    if found is None:
        raise InvalidInputError(
            f"no operation is called {name[:60]!r}; operations are {', '.join(BUILT_IN)}, or "
            "module:name of your own"
        )
    return found


def know(operation: Operation) -> None:
    """Register an operation of a project, so that `named` finds it."""
    of_projects[operation.name] = operation


def of(case: Case) -> Operation:
    """The operation of a case. A file's case may belong to an operation that is unknown here: it
    then has only words."""
    found = BUILT_IN.get(case.operation) or of_projects.get(case.operation)
    return found or _Unknown(case)


def of_file(cases: Sequence[Case]) -> Operation:
    """The operation of all cases of a run file, as `of`."""
    return of(cases[0]) if cases else ATTENTION


def control_of(id_: str) -> str:
    """What tables call the baseline of a case; attention's, if this is no case."""
    case = read_case(id_)
    return title(ATTENTION.baseline if case is None else of(case).baseline)


class _Unknown(Operation):
    """Knows of an operation what a case says."""

    def __init__(self, case: Case) -> None:
        self.name, self.sizes = case.operation, tuple(case.sizes)


def parse_case(text: str) -> Case:
    """Read a case id as in tables and files: `b1-h8-q512-d64-fp16-causal-cpu`, or
    `rms-norm-rows64-dim128-fp16-cpu`.

    Raises InvalidInputError with the accepted form.
    """
    for operation in (*BUILT_IN.values(), *of_projects.values()):
        if operation is not ATTENTION and text.startswith(f"{label(operation.name)}-"):
            return operation.parse_id(text)
    return ATTENTION.parse_id(text)


def find_id(text: str) -> str:
    """The id of a case in a longer text, such as a benchmark's name; "" without one. Ids of a
    project's operations stand alone: `read_case`."""
    found = _WITHIN.search(text)
    return found[0] if found else ""


def read_case(text: str) -> Case | None:
    """A case of any operation by its id, for words about it: one of a project has no counts here.
    None for what is no id."""
    with contextlib.suppress(InvalidInputError):
        return parse_case(text)
    found = _ANY.fullmatch(text) if len(text) < _LONGEST else None
    if found is None:
        return None
    sizes = [_SIZE.fullmatch(part) for part in found["sizes"].strip("-").split("-")]
    dtype: DtypeName = next(name for name in DTYPES if name == found["dtype"])
    options = {f"option{place}": word for place, word in enumerate(found["options"].split("-")[1:])}
    numbers = {one[1]: int(one[2]) for one in sizes if one}
    return Case(found["name"], numbers, dtype, found["device"], id=text, options=options)
