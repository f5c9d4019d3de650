"""A job is started once, and a look at its state does not keep it from starting."""

import shutil
import subprocess
from pathlib import Path

from flashbench import cloud


def test_a_job_starts_while_its_state_is_asked_for(tmp_path: Path) -> None:
    """Who asks holds the lock for a moment; the job waits for it."""
    shutil.copy(Path(cloud.__file__).with_name("job.sh"), tmp_path)
    asking = ["flock", "lock", "sh", "-c", "echo held; sleep 0.5"]
    with subprocess.Popen(asking, cwd=tmp_path, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        # Without its parameters it ends at the first that it needs, after its start.
        done = subprocess.run(["bash", "job.sh"], cwd=tmp_path, capture_output=True, text=True)
    assert "runs already" not in done.stderr
    assert (tmp_path / "pid").exists()
