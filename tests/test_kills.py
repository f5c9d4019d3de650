"""Processes killed while they measure: nothing that was in the run file is lost."""

import random
from pathlib import Path

import forks
import kills


def test_killed_again_and_again_it_ends(tmp_path: Path) -> None:
    """Each signal once, in the midst of writing the file or between, then to the end."""
    command, cwd = kills.commands("run", tmp_path)
    command[-1:-1] = ["--launches", "20"]
    path = tmp_path / "run.json"
    rng, before = random.Random(1), kills.Measured()
    for number in kills.SIGNALS:
        event = kills.Event(rng.randint(1, 2), rng.random() < 0.5)
        process = forks.start([*command, path], cwd)
        code, errors = kills.kill(process, path, number, event)
        before = kills.check(before, path, code, errors)
        if code not in (4, *(-one for one in kills.SIGNALS)):
            break  # it was faster than the event
    assert before
    done = forks.run([*command, path], cwd)
    assert done.returncode == 0, done.stderr
    after = kills.check(before, path, 0, done.stderr)
    assert len(after) == 20 * 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]
