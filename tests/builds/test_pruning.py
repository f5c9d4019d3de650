"""Pruning shrinks the build cache and never removes entries in use."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flashbench.builds import pruning
from flashbench.errors import Exit, NotMeasuredError

KEYS = [character * 32 for character in "abcd"]
HOLD = (
    "import sys; from pathlib import Path; from flashbench.builds.pruning import use\n"
    "use(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()\n"
)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Four builds, each used a day after the one before, the last one today; with short cuts."""
    for age, key in zip((3, 2, 1, 0), KEYS, strict=True):
        (tmp_path / key).mkdir()
        (tmp_path / key / "library.so").write_bytes(os.urandom(100_000))
        (tmp_path / "known").mkdir(exist_ok=True)
        (tmp_path / "known" / key).write_text(key)
        os.utime(tmp_path / key, (time.time() - age * 86400,) * 2)
    (tmp_path / "commits").mkdir()
    return tmp_path


def left(cache: Path) -> list[str]:
    assert sorted(path.name for path in (cache / "known").iterdir()) == sorted(
        path.name for path in cache.glob("[a-d]" * 32)
    )
    return sorted(path.name for path in cache.glob("[a-d]" * 32))


def test_longest_unused_goes_first(cache: Path) -> None:
    """Pruned by age, then by size; use makes an entry young again, and so does a time in the
    future."""
    pruning.touch(cache / KEYS[0])
    os.utime(cache / KEYS[3], (time.time() + 86400,) * 2)
    removed = pruning.prune(cache, 1.5 * 86400, float("inf"))
    assert [entry.path.name for entry in removed] == [KEYS[1]]
    assert left(cache) == [KEYS[0], KEYS[2], KEYS[3]]
    pruning.prune(cache, 1.5 * 86400, 250_000)
    assert left(cache) == [KEYS[0], KEYS[3]]
    assert (cache / "commits").is_dir()


def test_cache_in_use_is_left_alone(cache: Path) -> None:
    """While a process builds or measures nothing is removed; when it was killed, it is."""
    command = [sys.executable, "-c", HOLD, str(cache)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(NotMeasuredError, match="in use") as refused:
            pruning.prune(cache, 0, 0)
        assert refused.value.exit_code == Exit.NOT_MEASURED
        assert len(left(cache)) == 4
        other.kill()
    pruning.prune(cache, 0, 0)
    assert left(cache) == []
