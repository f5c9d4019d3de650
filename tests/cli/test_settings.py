"""Settings of commands in pyproject.toml."""

import contextlib
import os
from pathlib import Path

import forks
import pytest

from flashbench.cli.run import command
from flashbench.cli.settings import defaults
from flashbench.cost.money import Money
from flashbench.errors import InvalidInputError
from flashbench.measuring.claim import claimed, new_run_file
from flashbench.pyproject import find_pyproject


def settings(directory: Path, text: str) -> dict[str, object]:
    path = directory / "pyproject.toml"
    path.write_text(f"[tool.flashbench.run]\n{text}\n")
    return defaults(command, path)


def test_settings_are_defaults_by_flag_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys are the long flags; they are found from below, and lists stand for repeated flags."""
    text = 'candidate = ["mine=kernels:attention"]\nhourly-rate = 1.5\nlaunches = 3\n'
    found = settings(tmp_path, text + 'budget = "10m"')
    assert found["candidates"] == ["mine=kernels:attention"]
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    context = command.make_context("run", ["--launches", "7"])
    assert context.params["launches"] == 7
    assert context.params["budget"] == 600
    assert context.params["hourly_rate"] == Money(1.5)
    assert context.params["candidates"] == ("mine=kernels:attention",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nosuch = 1", "no setting 'nosuch'"),
        ('candidate = "mine"', "must be a list"),
        ("launches = [1]", "must be one value"),
        ("launches =", "cannot be read"),
    ],
)
def test_bad_settings_name_file_and_key(tmp_path: Path, text: str, words: str) -> None:
    """A setting that cannot be used is an error, never ignored."""
    with pytest.raises(InvalidInputError, match=words) as caught:
        settings(tmp_path, text)
    assert "pyproject.toml" in str(caught.value)


@pytest.mark.parametrize("kind", ["directory", "pipe", "broken link"])
def test_settings_that_are_no_file_are_refused(tmp_path: Path, kind: str) -> None:
    """A pyproject.toml that cannot be read is named; without its project another kernel would be
    measured."""
    path = tmp_path / "pyproject.toml"
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("nowhere.toml")
    assert find_pyproject(tmp_path) == path
    with pytest.raises(InvalidInputError, match=r"pyproject\.toml: cannot be read"):
        defaults(command, path)


def test_settings_of_an_outer_repository_are_not_taken(tmp_path: Path) -> None:
    """A repository inside another one, or a submodule of it, has its own settings or none."""
    (tmp_path / "pyproject.toml").write_text("")
    inner = tmp_path / "kernels" / "csrc"
    inner.mkdir(parents=True)
    assert find_pyproject(inner) == tmp_path / "pyproject.toml"
    (inner.parent / ".git").write_text("gitdir: ../.git/modules/kernels\n")
    assert find_pyproject(inner) is None


def test_new_run_files_of_one_second_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that another process has claimed and not yet written is no new one."""
    monkeypatch.chdir(tmp_path)
    names = set()
    with contextlib.ExitStack() as held:
        for _ in range(3):
            path = new_run_file("run")
            held.enter_context(claimed(path, "-o", force=False, tell=print))
            names.add(path)
    assert len(names) == 3


def test_unknown_tables_are_refused(tmp_path: Path) -> None:
    """Every command reports a misspelt table, whose settings would have no effect."""
    (tmp_path / "pyproject.toml").write_text("[tool.flashbench.comparee]\ntolerance = 0.5\n")
    done = forks.run(["show", "run.json"], tmp_path)
    assert done.returncode == 2
    assert "[tool.flashbench] has no table 'comparee'; tables are aa, backfill" in done.stderr
    (tmp_path / "pyproject.toml").write_text("[tool.flashbench.project]\nlaunches = 0.5\n")
    assert "no table" not in forks.run(["show", "run.json"], tmp_path).stderr
