"""The wheels of this flashbench: a job installs the one that is for its Python."""

from collections.abc import Sequence
from pathlib import Path

import flashbench
from flashbench.errors import InvalidInputError


def find_wheels(named: Sequence[Path]) -> list[Path]:
    """Those that are named, or else those of this version that `make wheel` left in dist/ of the
    checkout. InvalidInputError where there is none."""
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
