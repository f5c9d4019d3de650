"""The launches of a speed bisection: what becomes of them where they cannot be kept."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashbench.bisect import launches_on_demand
from flashbench.bisect.launches_on_demand import LaunchesOnDemand, own
from flashbench.errors import BudgetSpentError, NotMeasuredError
from flashbench.measuring.saving import NotSavedError
from flashbench.runfile import Pair

RULE = Pair(old="A", new="B", tolerance=0.02, confidence=0.98)


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (NotSavedError, NotSavedError),
        (BudgetSpentError, launches_on_demand.SpentError),
        (NotMeasuredError, None),
    ],
)
def test_full_disk_is_no_answer(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: type[NotMeasuredError],
    ends: type[Exception] | None,
) -> None:
    """A run file that cannot be saved ends the bisection, and so does a budget that pays for no
    start; a commit that cannot be measured is passed over, with the reason."""

    def fail(*_: Any) -> None:
        raise error("words")

    monkeypatch.setattr(launches_on_demand, "measure", fail)
    monkeypatch.setattr(LaunchesOnDemand, "_plan", lambda *_: None)
    commit: Any = SimpleNamespace(revision=SimpleNamespace(commit="a" * 40))
    nothing: Any = None
    asked = LaunchesOnDemand(nothing, nothing, tmp_path, RULE)
    if ends is not None:
        with pytest.raises(ends):
            asked.launch(commit, nothing)
    else:
        assert asked.launch(commit, nothing) is None
        assert asked.reasons == {"a" * 40: "words"}


def test_run_files_are_one_process_s_alone(tmp_path: Path) -> None:
    """They are reused unless unwanted; a second process gets the name of the holder."""
    directory = tmp_path / "bisect" / "digest"
    with own(directory):
        (directory / "file").write_text("kept")
        for force in (False, True):
            with (
                pytest.raises(NotMeasuredError, match=r"process \d+ since .* the same bisection"),
                own(directory, force=force),
            ):
                pytest.fail("it is in use")
    with own(directory):
        assert (directory / "file").read_text() == "kept"
    with own(directory, force=True):
        assert not (directory / "file").exists()
    directory.rmdir()
    directory.write_text("in the way")
    with pytest.raises(NotMeasuredError, match="cannot be created"), own(directory):
        pytest.fail("it cannot be created")


def test_run_files_of_other_builds_are_set_aside(tmp_path: Path) -> None:
    """A file that cannot be used is kept under another name, whatever is there already."""
    identity = SimpleNamespace(library_hash="now")
    commit: Any = SimpleNamespace(revision=SimpleNamespace(commit="a" * 40), identity=identity)
    nothing: Any = None
    asked = LaunchesOnDemand(nothing, commit, tmp_path, RULE)
    for content in ("damaged", "damaged, too"):
        (tmp_path / f"{'a' * 40}.json").write_text(content)
        assert asked._known(commit) is None
    assert {path.read_text() for path in tmp_path.iterdir()} == {"damaged", "damaged, too"}
    assert asked._known(commit) is None
