"""Processes killed while they measure: nothing that was in the run file is lost."""

import random
from pathlib import Path

import kills


def test_killed_again_and_again_it_ends(tmp_path: Path) -> None:
    """Each signal once, in the midst of writing the file or between, then to the end."""
    command, cwd = kills.commands("run", tmp_path)
    path = tmp_path / "run.json"
    rng, before = random.Random(1), kills.Measured()
    for number in kills.SIGNALS:
        event = kills.Event(rng.randint(1, 2), rng.random() < 0.5)
        code, errors = kills.kill([*command, str(path)], path, number, event, cwd)
        before = kills.check(before, path, code, errors)
        if code not in (4, *(-one for one in kills.SIGNALS)):
            break  # it was faster than the event
    assert before
    code, errors = kills.kill([*command, str(path)], path, number, kills.Event(10_000, False), cwd)
    assert code == 0, errors
    after = kills.check(before, path, code, errors)
    assert len(after) == 6 * 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]
