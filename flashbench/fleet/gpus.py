"""The GPUs of this machine, and which of them to measure on. Asks nvidia-smi, not torch."""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.fleet.local import Slot
from flashbench.inputs import reason


@dataclass(frozen=True)
class Gpu:
    """A GPU as the driver names it."""

    index: str
    uuid: str
    model: str


def visible_gpus() -> list[Gpu]:
    """The GPUs that CUDA would see, in its order. NotMeasuredError if there is none."""
    query = ["nvidia-smi", "--query-gpu=index,uuid,name", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotMeasuredError(
            f"--gpus: nvidia-smi does not work here ({_why(error)}); no GPU, no driver?"
        ) from None
    rows = [[part.strip() for part in line.split(",")] for line in done.stdout.splitlines()]
    gpus = [Gpu(*row) for row in rows if len(row) == 3]
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is not None:
        gpus = [_find(name.strip(), gpus) for name in wanted.split(",") if name.strip()]
    if not gpus:
        raise NotMeasuredError("--gpus: no GPU is visible here; see nvidia-smi")
    return gpus


def _why(error: OSError | subprocess.SubprocessError) -> str:
    if isinstance(error, FileNotFoundError):
        return "not on PATH"
    if isinstance(error, OSError):
        return reason(error)
    if isinstance(error, subprocess.CalledProcessError):
        return f"exit code {error.returncode}"
    return "no answer within 30 s"


def _find(name: str, gpus: Sequence[Gpu]) -> Gpu:
    found = [g for g in gpus if g.index == name or (len(name) > 4 and g.uuid.startswith(name))]
    if len(found) != 1:
        raise InvalidInputError(
            f"--gpus: CUDA_VISIBLE_DEVICES names {name!r}, which nvidia-smi does not list; unset "
            "it, or name whole GPUs"
        )
    return found[0]


def choose(text: str, gpus: Sequence[Gpu]) -> list[Gpu]:
    """`all`, `2` (the first two) or `0,1,3` (places among the visible ones); all of one model."""
    places = range(len(gpus)) if text == "all" else places_of(text)
    if not places or max(places) >= len(gpus):
        raise InvalidInputError(
            f"--gpus {text}: {len(gpus)} GPUs are visible here, numbered from 0; name each once"
        )
    chosen = [gpus[place] for place in places]
    models = list(dict.fromkeys(gpu.model for gpu in chosen))
    if len(models) > 1:
        raise InvalidInputError(
            f"--gpus {text}: they differ ({' and '.join(models)}), and so would their times; "
            "choose GPUs of one model"
        )
    return chosen


def places_of(text: str) -> Sequence[int]:
    """The places that `2` or `0,1,3` names."""
    parts = text.split(",")
    if not all(part.isdecimal() and part.isascii() and len(part) < 6 for part in parts):
        raise InvalidInputError(f"invalid --gpus {text!r}; write all, 2, or 0,1,3")
    places = range(int(text)) if len(parts) == 1 else [int(part) for part in parts]
    if not places or len(set(places)) < len(places):
        raise InvalidInputError(f"--gpus {text}: name one or more GPUs, each once")
    return places


def slots(gpus: Sequence[Gpu]) -> list[Slot]:
    """One slot per GPU; its UUID identifies the GPU whatever order CUDA counts in."""
    return [Slot(f"gpu {gpu.index}", {"CUDA_VISIBLE_DEVICES": gpu.uuid}) for gpu in gpus]


def count_devices(text: str, tasks: int | None, *, elsewhere: bool) -> int:
    """How many devices share the cases: of the GPUs of this machine, or as many as --gpus names on
    another. text: of --gpus; tasks: of --slurm. Raises InvalidInputError."""
    if not text:
        return tasks or 1
    try:
        visible = [] if elsewhere else visible_gpus()
    except NotMeasuredError:
        visible = []
    if visible:
        return len(choose(text, visible))
    if text == "all":
        raise InvalidInputError(
            "--gpus all: the GPUs of another machine are not known here; write how many"
        )
    return len(places_of(text))
