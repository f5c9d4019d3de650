"""Operations that a project brings: `module:name`, imported in processes of their own.

Workers import the module. Every other process asks one that does (`described`), so that neither
torch nor the project's code runs where a crash would lose what was measured.
"""

import importlib
import subprocess
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import msgspec

from flashbench import operations, own_python
from flashbench.case import Case, DtypeName
from flashbench.errors import InvalidInputError
from flashbench.operations.operation import Operation, Options, Sizes, label

_SECONDS = 120.0
_DEFINED = ("inputs", "truth", "flops", "elements")
_BOOTSTRAP = (
    f"from flashbench.operations.of_project import answer; {own_python.FROM_HERE}"
    "answer(*sys.argv[1:])"
)


class _Question(msgspec.Struct):
    """Cases to count: every shape with every option."""

    shapes: list[dict[str, int]] = []
    options: list[dict[str, str]] = []


class _Answer(msgspec.Struct):
    """counts: (flops, elements, exponentials) of each shape and option. error: instead of all."""

    error: str = ""
    sizes: tuple[str, ...] = ()
    presets: dict[str, list[str]] = {}
    options: list[dict[str, str]] = []
    backends: dict[str, list[str]] = {}
    auto_backends: dict[str, list[str]] = {}
    counts: list[tuple[int, int, int]] = []


_QUESTION = msgspec.json.Decoder(_Question)
_ANSWER = msgspec.json.Decoder(_Answer)


def imported(spec: str, import_root: str) -> Operation:
    """Import an operation here. import_root: searched first; no other module is searched for there.
    Raises InvalidInputError: what is wrong with it."""
    module_name, _, name = spec.partition(":")
    before = list(sys.path)
    if import_root:
        sys.path.insert(0, import_root)
    try:
        found = getattr(importlib.import_module(module_name), name, None)
    except Exception as error:
        line = (str(error).strip() or "no reason given").splitlines()[0]
        _refuse(spec, f"{module_name} cannot be imported: {type(error).__name__}: {line}")
    finally:
        sys.path[:] = before
    if isinstance(found, type) and issubclass(found, Operation):
        found = found()
    if not isinstance(found, Operation):
        _refuse(spec, f"{module_name} has no flashbench.operations.Operation named {name!r}")
    if label(spec) in operations.BUILT_IN:
        _refuse(spec, f"{label(spec)} is an operation of flashbench; give yours another name")
    found.name = spec
    wanted = [*_DEFINED, *(["eager"] if _is_own(found, "load_baseline") else [])]
    if lacking := [name for name in wanted if _is_own(found, name)]:
        _refuse(spec, f"it does not define {', '.join(lacking)}")
    try:
        sizes = found.sizes
        for preset in ("tiny", "headline"):
            found.preset(preset)
    except AttributeError as error:
        _refuse(spec, f"it lacks {error.name!r}")
    except InvalidInputError as error:
        _refuse(spec, str(error))
    if not sizes or not all(one.isidentifier() and one.islower() for one in sizes):
        _refuse(spec, "`sizes` must be names in lower case")
    return found


def _is_own(found: Operation, name: str) -> bool:
    """Whether a method is still that of `Operation`."""
    return getattr(type(found), name) is getattr(Operation, name)


def _refuse(spec: str, why: str) -> NoReturn:
    raise InvalidInputError(f"operation {spec}: {why}")


def answer(spec: str, import_root: str) -> None:
    """In a process of its own: describe the operation; the question is on stdin."""
    asked = _QUESTION.decode(sys.stdin.buffer.read())
    stdout, sys.stdout = sys.stdout, sys.stderr  # for what the module prints
    try:
        known = imported(spec, import_root)
        found = _Answer(
            sizes=tuple(known.sizes),
            presets={name: list(texts) for name, texts in known.presets.items()},
            options=[dict(one) for one in known.options],
            backends={device: list(names) for device, names in known.backends.items()},
            auto_backends={device: list(names) for device, names in known.auto_backends.items()},
            counts=[known.counts(sizes, one) for sizes in asked.shapes for one in asked.options],
        )
    except InvalidInputError as error:
        found = _Answer(error=str(error))
    except Exception as error:  # its counts'
        line = traceback.extract_tb(error.__traceback__)[-1]
        said = traceback.format_exception_only(error)[0].splitlines()[0]
        found = _Answer(error=f"operation {spec}: {line.name} raises {said}")
    stdout.write(msgspec.json.encode(found).decode())


class Described(Operation):
    """An operation of a project, where its module is not imported."""

    def __init__(self, spec: str, import_root: str) -> None:
        found = _ask(spec, import_root, _Question())
        self.name, self.import_root = spec, import_root
        self.sizes, self.presets = found.sizes, found.presets
        self.options = found.options
        self.backends, self.auto_backends = found.backends, found.auto_backends
        self._counts: dict[str, tuple[int, int, int]] = {}

    def grid(
        self,
        shapes: Sequence[Sizes],
        dtypes: Sequence[DtypeName],
        options: Sequence[Options],
        device: str,
    ) -> list[Case]:
        question = _Question([dict(one) for one in shapes], [dict(one) for one in options])
        found = _ask(self.name, self.import_root, question)
        keys = [_key(sizes, one) for sizes in shapes for one in options]
        self._counts |= dict(zip(keys, found.counts, strict=True))
        return super().grid(shapes, dtypes, options, device)

    def counts(self, sizes: Sizes, options: Options) -> tuple[int, int, int]:
        return self._counts.get(_key(sizes, options), (0, 0, 0))


def _key(sizes: Sizes, options: Options) -> str:
    return f"{sorted(sizes.items())} {sorted(options.items())}"


def _ask(spec: str, import_root: str, question: _Question) -> _Answer:
    try:
        done = subprocess.run(
            own_python.command(_BOOTSTRAP, spec, import_root),
            input=msgspec.json.encode(question),
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        _refuse(spec, f"its module took more than {_SECONDS:g} s to import")
    try:
        found = _ANSWER.decode(done.stdout)
    except msgspec.DecodeError:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        last = lines[-1] if lines else f"its process ended with {done.returncode}"
        _refuse(spec, last[:300])
    if found.error:
        raise InvalidInputError(found.error)
    return found
