"""Private directories go when their user goes, and not before."""

import subprocess
import sys
from pathlib import Path

from flashbench.builds.scratch import scratch

HOLD = (
    "import sys; from pathlib import Path; from flashbench.builds.scratch import scratch\n"
    "with scratch(Path(sys.argv[1])) as mine:\n"
    "    (mine / 'file').write_text('kept'); print(mine, flush=True); sys.stdin.read()\n"
)


def test_those_of_the_living_stay(tmp_path: Path) -> None:
    """Another process's directory is left alone while it lives, and removed once it was killed."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        theirs = Path(other.stdout.readline().strip())
        with scratch(tmp_path) as mine, scratch(tmp_path) as second:
            assert mine != second
            assert (theirs / "file").read_text() == "kept"
        assert not mine.exists()
        other.kill()
    assert theirs.exists()
    with scratch(tmp_path):
        assert not theirs.exists()
