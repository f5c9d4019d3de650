"""What a user asks to profile, as workers load it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from flashbench import defaults
from flashbench.baseline_names import backend_of, is_baseline_name
from flashbench.candidates import OURS, baselines, is_function, parse_candidate, parse_candidates
from flashbench.case import Case
from flashbench.errors import InvalidInputError
from flashbench.measuring.protocol import Setup
from flashbench.metric import metric_of
from flashbench.profile.collect import ToProfile
from flashbench.revisions.announced import build_one
from flashbench.revisions.built import setup_of_builds
from flashbench.revisions.project import find, read
from flashbench.revisions.revision import WORKTREE, resolve
from flashbench.runfile import Candidate
from flashbench.streams import Tell

_NAME = "candidate"  # of a revision


@dataclass(frozen=True)
class ProfileRequest:
    """How candidates are called. cold: with an empty L2 cache; threads: of torch, None for its
    default; how: as in `build_one`."""

    case: Case
    cold: bool = False
    threads: int | None = None
    how: Mapping[str, Any] = field(default_factory=dict)


def asked_for(
    candidate: str | None,
    against: str | None,
    variants: Sequence[str],
    request: ProfileRequest,
    tell: Tell,
) -> list[ToProfile]:
    """The candidate with its variants (STAGE=MODULE:FUNCTION), and what it is profiled against.

    candidate: None for the project's callable of the working tree, or our own attention without a
    project. Raises InvalidInputError, NotMeasuredError.
    """
    stages = _variants(variants)
    default = OURS if find(Path.cwd()) is None else WORKTREE
    asked = [_to_profile(one, request, tell) for one in (candidate or default, against) if one]
    asked[0] = replace(asked[0], variants=_loaded_as(asked[0], stages))
    if len(asked) == 2 and asked[0].label == asked[1].label:
        raise InvalidInputError(f"--against {asked[1].label} is the candidate itself")
    return asked


def _to_profile(text: str, request: ProfileRequest, tell: Tell) -> ToProfile:
    """How what a user wrote is loaded. Raises InvalidInputError, NotMeasuredError."""
    case = request.case
    setup = Setup(
        device=case.device,
        candidates=[],
        backends="default",
        threads=request.threads,
        samples=defaults.SAMPLES,
        min_sample_seconds=None,
        metrics=[metric_of(case.device, "gpu_cold" if request.cold else None)],
        operation=case.operation,
    )
    if is_baseline_name(text):
        setup.backends = backend_of(text) or "default"
        baselines(case.device, setup.backends, case.operation)  # refuse an unknown name
        return ToProfile(setup, text, text)
    project = find(Path.cwd())
    setup.import_root = "" if project is None else str(project.import_root)
    if text == OURS or "=" in text or is_function(text):
        candidate = parse_candidate(text)
        setup.candidates = [candidate]
        return ToProfile(setup, candidate.name, candidate.name)
    return _revision(text, setup, request, tell)


def _variants(texts: Sequence[str]) -> list[Candidate]:
    """What a user wrote of variants. Raises InvalidInputError."""
    for text in texts:
        stage, _, function = text.partition("=")
        if not stage or not is_function(function):
            raise InvalidInputError(f"--variant {text!r}: write it as stage=module:function")
    return parse_candidates(list(texts))


def _loaded_as(whole: ToProfile, found: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Variants of a candidate, loaded as it is."""
    if whole.setup.import_roots:  # a revision: from its build
        (built,) = whole.setup.candidates
        return tuple(msgspec.structs.replace(built, name=v.name, spec=v.spec) for v in found)
    return tuple(found)


def _revision(text: str, setup: Setup, request: ProfileRequest, tell: Tell) -> ToProfile:
    """A revision of the project here, built. Raises InvalidInputError, NotMeasuredError."""
    project = read(Path.cwd())
    tree = resolve(project.repository, text)
    built = build_one(project, tree, text, tell, **request.how)
    setup = msgspec.structs.replace(setup, **setup_of_builds({_NAME: built}))
    return ToProfile(setup, _NAME, text)
