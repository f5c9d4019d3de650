"""Measure from Python: `flashbench.measure`."""

import shlex
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from flashbench.api.arguments import checked, command_options, in_parameters
from flashbench.api.cases import Cases, CausalName, LayoutName, plan_fields
from flashbench.api.run import Run
from flashbench.case import DtypeName
from flashbench.errors import InvalidInputError
from flashbench.measuring.claim import claimed, new_run_file
from flashbench.measuring.progress import Silent, make_progress
from flashbench.measuring.requested import how_to_build, requested_plan
from flashbench.measuring.same_plan import continued
from flashbench.operations.chosen import chosen
from flashbench.revisions.working_tree import in_project
from flashbench.run_plan import RunEnd
from flashbench.run_plan import measure as measure_plan

Callables = Sequence[str | Callable[..., Any]] | Mapping[str, str | Callable[..., Any]]


@checked("run")
def measure(
    candidates: Callables | None = None,
    cases: Cases | None = None,
    *,
    operation: str | None = None,
    dtypes: Sequence[DtypeName] | None = None,
    causal: CausalName | None = None,
    layout: LayoutName | None = None,
    device: Literal["auto", "cpu", "cuda"] | None = None,
    backends: str | None = None,
    launches: int | None = None,
    samples: int | None = None,
    min_sample: float | None = None,
    seed: int | None = None,
    threads: int | None = None,
    timeout: float | None = None,
    budget: float | None = None,
    path: str | Path | None = None,
    force: bool | None = None,
    progress: bool = True,
) -> Run:
    """Measure candidates beside the baselines, as `flashbench run` does, and return the run.

    A parameter that is None takes what [tool.flashbench.run] of the project here sets, else the
    default of the command.

    candidates: functions, or `module:function`, perhaps as `name=module:function` or by name in a
    mapping; each launch is a process of its own that imports them, so a function must be in a
    module, not in a notebook's cell. None, without a setting: the callable of the project, built
    from the working tree, else flashbench's own attention. []: the baselines alone. cases: presets
    ("tiny", "headline"), shapes ("1,8,512,64", "rows=64,dim=128"), or ids as in tables; None, as in
    dtypes, causal and layout: the settings, or [tool.flashbench.cases], else the headline.
    min_sample, timeout, budget: seconds; the rest as the options of `flashbench run`.

    path: the run file, saved as it grows, by default bench-<date>-<time>.json; one with the same
    plan is resumed, any other refused, or replaced with `force`. progress: print it on stderr.

    Ctrl-C raises KeyboardInterrupt with the file's name: what was measured is in it. Raises
    InvalidInputError, and NotMeasuredError if nothing could be measured. A candidate that crashes
    or is wrong raises nothing: the run says so.
    """
    given = {name: value for name, value in locals().items() if value is not None}
    options: dict[str, Any] = {**command_options("run"), **given}
    options["operation"] = chosen(options["operation"])
    functions = []
    if candidates is not None:
        named = _named(candidates)
        options |= {"candidates": [*map(_text, named)], "baseline_only": not named}
        functions = [one for _, one in named if not isinstance(one, str)]
    display = make_progress(in_parameters(measure)) if progress else Silent()
    plan = in_project(
        requested_plan(options, plan_fields(options, given)),
        display.note,
        named=bool(options["candidates"] or options["baseline_only"]),
        budget=options["budget"],
        **how_to_build(options),
    )
    plan = replace(plan, import_root=plan.import_root or _root(functions))
    file = Path(path or options["output"] or new_run_file("bench"))
    with claimed(file, "path=", force=options["force"], tell=display.note) as resumed:
        if resumed is not None:
            plan = continued(resumed, plan, file, "path=", display.note)
        return finished(measure_plan(plan, file, display, resumed, check=True), file)


def finished(end: RunEnd, file: Path) -> Run:
    """The run; KeyboardInterrupt if it was interrupted, NotMeasuredError if it is empty."""
    run = Run(end.measured(), file)
    if end.interrupted:
        raise KeyboardInterrupt(
            f"interrupted; {run.launches} launch{'es are' if run.launches != 1 else ' is'} kept: "
            f"flashbench.load({str(file)!r}); the same call with path={str(file)!r} resumes"
        )
    return run


def _named(candidates: Callables) -> list[tuple[str, str | Callable[..., Any]]]:
    """Names, "" where none is given, and callables."""
    if isinstance(candidates, str) or callable(candidates):
        raise InvalidInputError(f"candidates must be a list: [{_spec(candidates)!r}]")
    if isinstance(candidates, Mapping):
        return list(candidates.items())
    if not isinstance(candidates, Sequence):
        raise InvalidInputError(f"candidates: {candidates!r:.80} is no list")
    return [("", one) for one in candidates]


def _text(named: tuple[str, str | Callable[..., Any]]) -> str:
    """A candidate as the command takes it."""
    name, one = named
    return f"{name}={_spec(one)}" if name else _spec(one)


def _root(functions: Sequence[Callable[..., Any]]) -> str:
    """Where the modules of functions were found, if a new process would not look there."""
    usual = {str(Path.cwd()), *map(str, sysconfig.get_paths().values())}
    found = set()
    for one in functions:
        module = sys.modules[one.__module__]
        depth = one.__module__.count(".") + hasattr(module, "__path__")
        if file := getattr(module, "__file__", None):
            found.add(str(Path(file).absolute().parents[depth]))
    others = sorted(found - usual)
    if len(others) > 1:
        raise InvalidInputError(
            f"candidates from {others[0]} and {others[1]}: a worker searches one folder besides "
            "the installed packages; measure from a folder with both"
        )
    return others[0] if others else ""


def _spec(one: str | Callable[..., Any]) -> str:
    """`module:function` of a function, if a worker can import it by that."""
    if isinstance(one, str):
        return one
    module, name = getattr(one, "__module__", None), getattr(one, "__qualname__", "")
    if module == "__main__" or not module or not name.isidentifier():
        called = name or type(one).__name__
        raise InvalidInputError(
            f"{shlex.quote(called)} cannot be imported by another process, where each launch runs: "
            "put it into a module (in a notebook: %%writefile my_kernels.py) and name it as "
            '"my_kernels:function"'
        )
    return f"{module}:{name}"
