"""Fixes are commands: `sed` changes one word of one line and nothing else, or an editor opens."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from flashbench.preflight.fixes import edit, rename, replace, write

_WORDS = st.text("ab_1.*^$|&/\\'\"[]+-:", min_size=1, max_size=8)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=_WORDS, new=_WORDS, around=st.sampled_from([("x(", ")"), ('"', '",'), ("", "")]))
def test_replaced_word(tmp_path: Path, old: str, new: str, around: tuple[str, str]) -> None:
    """Any sign may be in the words; other lines stay."""
    lines = [old, f"{around[0]}{old}{around[1]}", old]
    (tmp_path / "a file.py").write_text("\n".join(lines))
    command = replace("\n".join(lines), "a file.py:2", old, new)
    assume(command.startswith("sed"))
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)
    lines[1] = f"{around[0]}{new}{around[1]}"
    assert (tmp_path / "a file.py").read_text() == "\n".join(lines)


@pytest.mark.parametrize("line", ["tile_2 = 1", "tile, tile", 'join("ti", "le")'])
def test_word_that_a_line_does_not_hold_once(line: str) -> None:
    """An editor opens where it stands."""
    said = edit("setup.py:1", "write copy in place of tile")
    assert replace(line, "setup.py:1", "tile", "copy") == said


def test_longer_word_before_it(tmp_path: Path) -> None:
    """`sed` leaves the word alone that begins in the same way."""
    (tmp_path / "setup.py").write_text("tiles, tile")
    command = replace("tiles, tile", "setup.py:1", "tile", "copy")
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)
    assert (tmp_path / "setup.py").read_text() == "tiles, copy"


def test_name_of_two_files(tmp_path: Path) -> None:
    """Each use gets the new name, and no longer word."""
    files = ["a unit.cu", "other.cu"]
    for file in files:
        (tmp_path / file).write_text("start(start_all); restart;\nstart<T>();")
    subprocess.run(["sh", "-c", rename("start", "launch", files)], cwd=tmp_path, check=True)
    for file in files:
        assert (tmp_path / file).read_text() == "launch(start_all); restart;\nlaunch<T>();"


def test_file_that_is_written_by_hand() -> None:
    """Its folder is made first."""
    made = 'mkdir -p csrc && "${EDITOR:-vi}" csrc/a.h && git add csrc/a.h  # or '
    assert write("csrc/a.h") == f"{made}correct what names it"
