"""Find the wheels of this flashbench; a job installs the one for its Python."""

from collections.abc import Sequence
from pathlib import Path

import flashbench
from flashbench.errors import InvalidInputError


def find_wheels(named: Sequence[Path]) -> list[Path]:
    """The named wheels, or else those of this version in the checkout's dist/ (`make wheel`).
    InvalidInputError if there is none."""
    for wheel in named:
        if not wheel.is_file() or wheel.suffix != ".whl":
            raise InvalidInputError(f"--wheel {wheel}: no wheel is there; `make wheel` makes one")
    if named:
        return list(named)
    dist = Path(flashbench.__file__).parents[1] / "dist"
    found = sorted(dist.glob(f"flashbench-{flashbench.__version__}-*.whl"))
    if not found:
        raise InvalidInputError(
            f"no wheel of flashbench {flashbench.__version__} to send; make one with `make wheel` "
            "in a checkout of it, or name one with --wheel"
        )
    return found
