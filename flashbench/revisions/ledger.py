"""The last outcome of each commit ever tried here, for `flashbench builds`.

`commits/REPOSITORY/COMMIT.json` in the build cache, one atomically written file per commit. It is a
record for people: builds are not looked up through it.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

import msgspec

from flashbench.builds import BuildStatus
from flashbench.files import replace_file

# How far a revision is checked: it builds, its callable imports, it computes correctly.
Stage = Literal["build", "load", "correct"]
STAGES: tuple[Stage, ...] = get_args(Stage)


class RevisionOutcome(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """The outcome of one revision; for a commit, the last known."""

    commit: str
    status: BuildStatus
    reason: str = ""  # the first lines that explain a failure; empty when built
    stage: Stage  # how far it was checked
    build: str  # the build's key
    toolchain: str  # digest of the toolchain it was built with; empty if unknown
    seconds: float = 0.0  # of the build, even if it was made for another commit
    when: str = msgspec.field(default="", name="tried")  # ISO 8601, UTC
    notes: tuple[str, ...] = ()
    checked: str = ""  # the cases on which it is correct; unknown in older records

    @property
    def failure(self) -> str:
        """The status and its reason; empty when built."""
        return "" if self.status == "built" else f"{self.status}: {self.reason}"


_OUTCOME = msgspec.json.Decoder(RevisionOutcome)


def record(cache: Path, repository: Path, outcome: RevisionOutcome) -> None:
    """Store it, unless the same build was checked further before. Raises OSError."""
    path = _directory(cache, repository) / f"{outcome.commit}.json"
    known = _read(path)
    if known is not None and (known.build, known.toolchain) == (outcome.build, outcome.toolchain):
        further = STAGES.index(known.stage) - STAGES.index(outcome.stage)
        same = msgspec.structs.replace(known, when=outcome.when, stage=outcome.stage) == outcome
        if (same and further >= 0) or (further > 0 and outcome.status == "built"):
            return
    replace_file(path, msgspec.json.encode(outcome))


def everything(cache: Path, repository: Path) -> Iterator[RevisionOutcome]:
    """The outcomes of all tried commits of the repository, unordered."""
    with contextlib.suppress(OSError):
        for path in sorted(_directory(cache, repository).glob("[0-9a-f]*.json")):
            if (outcome := _read(path)) is not None:
                yield outcome


def failures(cache: Path, repository: Path) -> dict[str, str]:
    """Why commits (full hashes) could not be used, in one line each: "missing header: ..."."""
    return {
        outcome.commit: f"{outcome.status}: {outcome.reason.partition(chr(10))[0]}".removesuffix(
            ": "
        )
        for outcome in everything(cache, repository)
        if outcome.status not in ("built", "unchecked")
    }


def digest(tools: dict[str, str]) -> str:
    """A digest of `toolchain.describe`, to detect a build with other tools."""
    return hashlib.sha256(msgspec.json.encode(sorted(tools.items()))).hexdigest()[:16]


def _directory(cache: Path, repository: Path) -> Path:
    named = hashlib.sha256(os.fsencode(repository.resolve())).hexdigest()[:16]
    return cache / "commits" / named


def _read(path: Path) -> RevisionOutcome | None:
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return _OUTCOME.decode(path.read_bytes())
    return None
