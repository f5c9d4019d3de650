"""What `perf stat` and its target say."""

from pathlib import Path

import pytest

from flashbench.errors import NotMeasuredError
from flashbench.profile import perf

# Counts one event, and says what the target would have said.
_PERF = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
echo "4;msec;task-clock" >"$2"
printf '%s' '{said}'
"""
_CALLS = '{"calls":2,"seconds":0.006}\n'


def _collect(folder: Path, said: str) -> dict[str, float]:
    tool = folder / "perf"
    tool.write_text(_PERF.replace("{said}", said))
    tool.chmod(0o755)
    return perf.collect(str(tool), ["target"], 10)[0]


@pytest.mark.parametrize("said", [_CALLS, f"hello\n{_CALLS}", f'{_CALLS}bye\n{{"calls":0}}\n\n'])
def test_a_candidate_may_print(tmp_path: Path, said: str) -> None:
    """Before its calls, and when it ends."""
    assert _collect(tmp_path, said) == {"task-clock": 0.002, "seconds": 0.003}


@pytest.mark.parametrize("said", ["", "\n", "bye\n"])
def test_no_answer_is_one_line(tmp_path: Path, said: str) -> None:
    """Not a traceback, whatever else was printed."""
    with pytest.raises(NotMeasuredError, match=r"^perf: the process ended without saying"):
        _collect(tmp_path, said)
