"""Check a callable on small or named cases, in the process that imported it.

A kernel may support only one head dim, dtype or device, and raise otherwise. So each dtype and mask
of each device is tried at further shapes until the callable accepts one; refusals everywhere are
reported, and a callable that accepts nothing is unchecked, never correct. A bug, such as an
undefined name, is not a refusal.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from flashbench import operations
from flashbench.callables import LAYOUTS
from flashbench.candidates import Loaded, reason
from flashbench.case import DEFAULT_DTYPES, DTYPES, Case, DtypeName
from flashbench.measuring.checks import WrongError, check_candidate
from flashbench.measuring.problem import Problem, inputs_of
from flashbench.operations import parse_case
from flashbench.operations.operation import Operation
from flashbench.project_cases import ANY_CASES, ProjectCases
from flashbench.revisions.computed import shapes
from flashbench.runfile import Candidate

# Tried if a device's default dtypes are all refused.
_LAST_DTYPES: dict[str, tuple[DtypeName, ...]] = {"cpu": (), "cuda": ("fp32",)}
# Multiply-adds of a truth that takes a second on one core.
_MOST_WORK = 1 << 28
# Raised by TORCH_CHECK, a guard or an assertion at a kernel's entry.
_REFUSALS = (RuntimeError, ValueError, AssertionError)
# Raised by broken code, never by a guard, even if the message names CUDA.
_BUGS = (NameError, AttributeError, ImportError, SyntaxError)
# Not refusals either, but a table may lack a head dim that another version has.
_FAILURES = (*_BUGS, LookupError, RecursionError)
_OF_A_DTYPE = re.compile(r"\b(dtypes?|b?float\d*|half|fp\d+|bf16|scalar type)\b", re.IGNORECASE)
# After these errors a process cannot use its GPU any more.
_FAULT = re.compile(
    r"illegal (memory access|instruction|address)|misaligned address|device-side assert|"
    r"unspecified launch failure|hardware (stack )?exception",
    re.IGNORECASE,
)


class RaisedError(Exception):
    """The callable raised on a case; the message is the first line.

    refusal: of an unsupported case. bug: something that working code never raises.
    """

    def __init__(self, line: str, *, refusal: bool, bug: bool) -> None:
        super().__init__(line)
        self.refusal = refusal
        self.bug = bug


@dataclass
class Checked:
    """right: the cases on which the callable is correct. refused: unsupported cases, with the
    reason; for a dtype and mask unsupported everywhere, the first one tried. failed: the same, if
    what it raised is not a refusal. wrong: what is wrong with it, with the case, or ""."""

    right: list[Case] = field(default_factory=list)
    refused: dict[Case, str] = field(default_factory=dict)
    failed: dict[Case, RaisedError] = field(default_factory=dict)
    wrong: str = ""

    @property
    def summary(self) -> str:
        """On which cases it is correct, and which it refuses, in one line."""
        parts = [summarized(self.right)]
        if self.refused:
            parts.append(f"refused: {summarized(self.refused)}")
        return "; ".join(filter(None, parts))

    @property
    def refusal(self) -> str:
        """The first refusal with its case, and how many more there are; "" without one."""
        for case, why in self.refused.items():
            more = len(self.refused) - 1
            return f"{case.id} is refused{f', as {more} more cases are' * bool(more)}: {why}"
        return ""


@dataclass(frozen=True)
class Watched:
    """ended: cases, by id, on which the process of an earlier check ended, and how: they are not
    called again. begin: called with the id of a case before its call."""

    ended: Mapping[str, str] = field(default_factory=dict)
    begin: Callable[[str], None] = lambda case: None


ALONE = Watched()


def check_named(
    call: Callable[..., Any], spec: str, names: Sequence[str], watched: Watched = ALONE
) -> Checked:
    """Check each named case once; refused cases go to `refused`."""
    found = _checked(call, spec, [[parse_case(name)] for name in names], watched)
    for case, raised in found.failed.items():
        found.wrong = found.wrong or f"{case.id}: raises {raised}"
    return found


def call_each(call: Callable[..., Any], names: Sequence[str], threads: int) -> None:
    """Call it once on each named case and ignore what it raises: the next call reports it."""
    torch.set_num_threads(threads)
    for name in names:
        inputs = inputs_of(parse_case(name), seed=0)
        with torch.no_grad(), contextlib.suppress(Exception):
            call(*inputs.tensors, **inputs.keywords)


def check_small(
    call: Callable[..., Any],
    spec: str,
    operation: Operation = operations.ATTENTION,
    wanted: ProjectCases = ANY_CASES,
    watched: Watched = ALONE,
) -> Checked:
    """Check each dtype and option, such as a mask, on every device here, at the first shape that
    the callable accepts. wanted: the cases of the settings, the smallest first; without any, small
    ones of the operation."""
    options = operation.requested(wanted.causal or "both", wanted.layout or LAYOUTS[0])
    tried = shapes(operation, wanted)
    found = Checked()
    for device in ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]:
        taken = len(found.right)
        asked = tuple(dtype for dtype in DTYPES if dtype in wanted.dtype)
        for dtypes in (asked,) if asked else (DEFAULT_DTYPES[device], _LAST_DTYPES[device]):
            if len(found.right) > taken or found.wrong:
                break
            tries = [
                [operation.case(one, dtype, device, wish) for one in tried]
                for dtype in dtypes
                for wish in options
            ]
            sampled = bool(wanted.shape or wanted.preset)
            of_device = _checked(call, spec, tries, watched, sampled=sampled)
            found.right += of_device.right
            found.refused |= of_device.refused
            found.failed |= of_device.failed
            found.wrong = found.wrong or of_device.wrong
    _judge_failed(found)
    return found


def _judge_failed(found: Checked) -> None:
    """Treat what raised everywhere as wrong if nothing is correct, or if it is a bug; else it is
    one more kind of refusal, such as a KeyError for a dtype that a table lacks."""
    devices = {case.device for case in found.right}
    for case, raised in found.failed.items():
        for_gpus_alone = case.device == "cpu" and devices == {"cuda"}
        if not devices or (raised.bug and not for_gpus_alone):
            found.wrong = found.wrong or f"{case.id}: raises {raised}"
        else:
            found.refused[case] = str(raised)


def summarized(cases: Iterable[Case]) -> str:
    """Case ids, merged by shape and device: b1-h2-q64-d64-{fp16,bf16}-full-cpu."""
    options: dict[tuple[str, str, str], list[str]] = {}
    for case in cases:
        shape = case.id.split(f"-{case.dtype}-")[0]
        said = "-".join(case.options.values())
        options.setdefault((shape, case.device, case.dtype), []).append(said)
    dtypes: dict[tuple[str, str, str], list[str]] = {}
    for (shape, device, dtype), those in options.items():
        dtypes.setdefault((shape, device, _either(those)), []).append(dtype)
    return ", ".join(
        "-".join(filter(None, [shape, _either(those), said, device]))
        for (shape, device, said), those in dtypes.items()
    )


def _either(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{{{','.join(words)}}}"


def _checked(
    call: Callable[..., Any],
    spec: str,
    tries: Iterable[Sequence[Case]],
    watched: Watched,
    *,
    sampled: bool = False,
) -> Checked:
    """The first accepted case of each sequence; ends at a wrong one. sampled: compare some rows of
    large results, all of small ones."""
    loaded = Loaded(Candidate(name="revision", spec=spec), call)
    found = Checked()
    for cases in tries:
        raised: dict[Case, RaisedError] = {}
        for case in cases:
            try:
                if case.id in watched.ended:
                    raise RaisedError(watched.ended[case.id], refusal=True, bug=False)
                watched.begin(case.id)
                doubted = bool(raised or found.failed or found.refused)
                problem = _problem_with(case, loaded, sampled=sampled, doubted=doubted)
            except RaisedError as error:
                raised[case] = error
                continue
            if problem:
                found.wrong = f"{case.id}: {problem}"
                return found
            found.right.append(case)
            found.refused |= {passed: str(error) for passed, error in raised.items()}
            break
        else:
            failed = [case for case, error in raised.items() if not error.refusal]
            failed.sort(key=lambda case: not raised[case].bug)
            if failed:
                found.failed[failed[0]] = raised[failed[0]]
            else:
                found.refused[cases[0]] = str(raised[cases[0]])
    return found


def _problem_with(case: Case, loaded: Loaded, *, sampled: bool, doubted: bool) -> str:
    """What is wrong with the callable on a case, "" for nothing. doubted: it raised on another, and
    is called once before the truth is computed. Raises RaisedError."""
    cuda = case.device == "cuda"
    synchronize: Callable[[], None] = torch.cuda.synchronize if cuda else lambda: None
    operation = operations.of(case)
    with torch.no_grad():
        if doubted:
            first = operation.bind(loaded.call, inputs_of(case, seed=0))

            def call_once() -> None:
                first()
                synchronize()

            if problem := _tried(call_once, case, loaded):
                return problem
        whole = not sampled or operation.truth_work(case) <= _MOST_WORK
        asked = Problem(case, seed=0, full_check=whole)
        call = asked.bind(loaded.call)
        return _tried(lambda: check_candidate(asked, call, synchronize), case, loaded)


def _tried(work: Callable[[], object], case: Case, loaded: Loaded) -> str:
    try:
        work()
    except WrongError as error:
        return str(error)
    except (Exception, SystemExit) as error:
        line = reason(error, [])
        if case.device == "cuda" and _FAULT.search(str(error)):
            return f"raises {line}"
        refusal = _is_refusal(error, line, case, loaded)
        raise RaisedError(line, refusal=refusal, bug=isinstance(error, _BUGS)) from error
    return ""


def _is_refusal(error: BaseException, line: str, case: Case, loaded: Loaded) -> bool:
    if isinstance(error, _FAILURES):
        return False
    if isinstance(error, _REFUSALS) or (isinstance(error, TypeError) and _OF_A_DTYPE.search(line)):
        return True
    # GPU-only code reports CPU tensors in many ways.
    no_device = case.device == "cpu" and "cuda" in str(error).lower()
    return no_device or (isinstance(error, Exception) and loaded.refuses(error))
