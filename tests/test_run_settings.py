"""Settings of commands in pyproject.toml."""

from pathlib import Path

import pytest

from flashbench.cli.run import command
from flashbench.errors import InvalidInputError
from flashbench.settings import defaults


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
    assert context.params["hourly_rate"] == 1.5
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
