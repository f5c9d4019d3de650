"""Candidates: named callables with the signature of SDPA, from a flag to a function.

Only `load` imports torch and the candidates, in a worker process: a candidate that crashes at
import cannot take the command line with it.
"""

import hashlib
import importlib
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING

from flashbench import operations
from flashbench.baseline_names import SDPA as SDPA
from flashbench.baseline_names import backend_of, backend_spec, is_baseline_name
from flashbench.callables import OUR_CALLABLE as OUR_CALLABLE
from flashbench.callables import OURS as OURS
from flashbench.callables import is_function as is_function
from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.runfile import BuildIdentity, Candidate

if TYPE_CHECKING:
    from flashbench.operations.operation import Output

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
# Warnings to ignore: headings, and those about backends that we disabled.
_NO_REASON = re.compile("not used because|runtime disabled")


def require_ours(operation: str) -> None:
    """Raise InvalidInputError for an operation that flashbench has no candidate for."""
    wanted = operations.named(operation)
    if operations.DEFAULT not in (wanted.name, wanted.candidates_of):
        raise InvalidInputError(
            f"nothing to measure: flashbench has no {operation} of its own; name one with "
            "--candidate name=module:function, or measure torch alone with --baseline-only"
        )


def parse_candidate(text: str) -> Candidate:
    """Read `flashbench`, `module:function` or `name=module:function`.

    Raises InvalidInputError with the accepted forms.
    """
    name, equals, spec = text.partition("=")
    if not equals:
        name, spec = name_of(text), text
    if spec != OURS and not is_function(spec):
        raise InvalidInputError(f"invalid candidate {text!r}; write name=module:function or {OURS}")
    if is_baseline_name(name):
        raise InvalidInputError(f"candidate name {name!r} is taken by the baseline; use another")
    if not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"candidate name {name!r} is invalid; use letters, digits and . _ + - (64 at most)"
        )
    return Candidate(name=name, spec=spec)


def name_of(spec: str) -> str:
    """The default name of a candidate: its function, or `module.function` if the function has a
    baseline's name."""
    function = spec.rpartition(":")[2]
    return spec.replace(":", ".") if is_baseline_name(function) else function


def parse_candidates(texts: list[str]) -> list[Candidate]:
    """All candidates of a command line; their names must differ."""
    candidates = [parse_candidate(text) for text in texts]
    names = [candidate.name for candidate in candidates]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInputError(
                f"two candidates are named {name!r}; give them different names: "
                "name=module:function"
            )
    return candidates


def baselines(device: str, backends: str, operation: str = operations.DEFAULT) -> list[Candidate]:
    """An operation's default baseline, then the requested backends: `default`, `auto`, `all`, or
    names separated by commas."""
    known = operations.named(operation)
    chosen: Sequence[str]
    if backends == "default":
        chosen = ()
    elif backends == "auto":
        chosen = known.auto_backends[device]
    elif backends == "all":
        chosen = known.backends[device]
    else:
        chosen = tuple(dict.fromkeys(name for name in backends.split(",") if name != "default"))
    names = dict.fromkeys([*known.backends["cuda"], *known.backends["cpu"]])
    for name in chosen:
        if name not in names:
            raise InvalidInputError(
                f"backend {name!r} is unknown; write default, auto, all, or names of "
                f"{', '.join(names)} separated by commas"
            )
    default = known.baseline
    specs = [default, *(backend_spec(default, name) for name in chosen)]
    return [Candidate(name=spec, spec=spec, baseline=True) for spec in specs]


class Loaded:
    """A candidate ready to be called.

    call: with the signature of its operation. `scope()` is entered around the timed
    calls, so selecting SDPA's backend costs none of their time. disproof(call), for a built
    revision: makes a call and returns the evidence that it ran other code, "" without any.
    """

    def __init__(
        self,
        candidate: Candidate,
        call: "Callable[..., Output]",
        scope: Callable[[], AbstractContextManager[None]] = nullcontext,
        disproof: "Callable[[Callable[[], Output]], str] | None" = None,
        refusal: Callable[[Exception], bool] = lambda error: False,
    ) -> None:
        self.candidate = candidate
        self.name = candidate.name
        self.call = call
        self.scope = scope
        self.disproof = disproof
        self._refusal = refusal

    def refuses(self, error: Exception) -> bool:
        """Whether the error says "not supported" rather than "broken".

        NotImplementedError from any candidate; ValueError and TypeError too from our extension,
        which rejects unsupported arguments with them; from SDPA, an error that no backend supports
        the case.
        """
        if isinstance(error, NotImplementedError):
            return True
        if self.candidate.spec in (OURS, OUR_CALLABLE):
            return isinstance(error, ValueError | TypeError)
        return self._refusal(error)


def load(
    candidate: Candidate,
    of_revision: Callable[[Candidate], Loaded] | None = None,
    operation: str = operations.DEFAULT,
) -> tuple[Loaded, BuildIdentity]:
    """Import a candidate. NotMeasuredError explains in one line why it cannot be measured.

    of_revision: loads a candidate that is a built revision, whose build is already known.
    """
    if candidate.baseline:
        known = operations.named(operation)
        found = known.load_baseline(backend_of(candidate.spec))
        loaded = Loaded(candidate, found.call, found.scope, refusal=known.baseline_refuses)
        # A project's operation may change between the launches of a run, as a candidate may.
        module = sys.modules.get(type(known).__module__) if ":" in operation else None
        return loaded, _identity(getattr(module, "__file__", None))
    if of_revision is not None:
        try:
            return of_revision(candidate), candidate.build
        except NotMeasuredError as error:
            raise NotMeasuredError(f"candidate {candidate.name}: {error}") from error
    if candidate.spec == OURS:
        from flashbench.extension import build_info

        info = build_info()
        from flashbench import attention

        build = BuildIdentity(
            commit=info.commit,
            dirty=info.dirty,
            source_hash=info.source_hash,
            library_hash=_sha256(info.path),
        )
        return Loaded(candidate, attention), build
    module_name, _, function_name = candidate.spec.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise NotMeasuredError(
            f"candidate {candidate.name}: {module_name} cannot be imported: "
            f"{type(error).__name__}: {error}"
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise NotMeasuredError(
            f"candidate {candidate.name}: {module_name} has no function {function_name!r}"
        )
    return Loaded(candidate, function), _identity(getattr(module, "__file__", None))


def _identity(file: str | None) -> BuildIdentity:
    """The identity of a module's own file: of its source, or of the extension's library."""
    if file is None or not Path(file).is_file():  # built in, a namespace, from a zip file
        return BuildIdentity()
    digest = _sha256(file)
    if file.endswith(tuple(EXTENSION_SUFFIXES)):
        return BuildIdentity(library_hash=digest)
    return BuildIdentity(source_hash=digest)


def reason(error: BaseException, caught: list[warnings.WarningMessage]) -> str:
    """One line for a failed call; SDPA explains in warnings why it has no backend for a case."""
    first = str(error).strip().splitlines()
    line = f"{type(error).__name__}: {first[0]}" if first else type(error).__name__
    messages = [str(warning.message).splitlines()[0] for warning in caught]
    why = [text.split(" (Triggered")[0] for text in messages if not _NO_REASON.search(text)]
    return " ".join([line, *dict.fromkeys(why)])[:500]


def _sha256(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
