"""Profiles in the history: kept at their commit, and what changed between them."""

from pathlib import Path

import forks
import pytest
from history.project import make_repository

from flashbench.errors import Exit, NotMeasuredError
from flashbench.history import profiles
from flashbench.profile import model
from flashbench.profile.model import CaseProfile

GPU = Path(__file__).parents[1] / "golden" / "profile_gpu.json"


def profile_at(commit: str, conflicts: float) -> CaseProfile:
    """The stored profile, as if it were of a commit, with so many times its bank conflicts."""
    profile = model.read(GPU)
    profile.environment.hostname = "box"
    first = profile.subjects[0]
    first.candidate.build.commit, first.candidate.build.dirty = commit, False
    for kernel in first.kernels:
        kernel.counters["conflicts"] = conflicts * 1e6
    return profile


def test_history_says_what_changed(tmp_path: Path) -> None:
    """Recorded profiles of two commits: same time, twice the bank conflicts."""
    commits = make_repository(tmp_path / "repository", ["One", "Two", "Three"])
    for commit, conflicts in zip(commits[:2], (1, 2), strict=True):
        model.save(profile_at(commit, conflicts), tmp_path / f"{commit}.json")
    report = model.read(tmp_path / f"{commits[0]}.json").subjects[0].report
    (tmp_path / report).write_bytes(b"raw")
    given = {"HOME": str(tmp_path)}
    files = [tmp_path / f"{commit}.json" for commit in commits[:2]]
    done = forks.run(["record", *files], tmp_path / "repository", given)
    assert done.returncode == Exit.PASS, done.stderr
    kept = sorted((tmp_path / "repository/.asv/flashbench/box/profiles").iterdir())
    assert len([path for path in kept if path.suffix == ".json"]) == 2
    assert [path.read_bytes() for path in kept if path.suffix == ".ncu-rep"] == [b"raw"] * 2
    done = forks.run(["history"], tmp_path / "repository", given)
    pair = f"{commits[1][:8]} against {commits[0][:8]}"
    assert f"on box: {pair}: same time, twice the bank conflicts" in done.stdout
    assert (
        pair
        not in forks.run(["history", f"{commits[1]}..HEAD"], tmp_path / "repository", given).stdout
    )


def test_a_profile_of_changes_is_no_commits(tmp_path: Path) -> None:
    """What was built with uncommitted changes is not kept."""
    (commit,) = make_repository(tmp_path / "repository", ["One"])
    profile = profile_at(commit, 1)
    profile.subjects[0].candidate.build.dirty = True
    model.save(profile, tmp_path / "p.json")
    done = forks.run(
        ["record", tmp_path / "p.json"], tmp_path / "repository", {"HOME": str(tmp_path)}
    )
    assert done.returncode == Exit.USAGE
    assert "uncommitted changes" in done.stderr
    for kernel in profile.subjects[0].kernels:
        kernel.counters = {}
    profile.subjects[0].without = "this user may not count"
    model.save(profile, tmp_path / "p.json")
    with pytest.raises(NotMeasuredError, match=r"keeps counters, .* has none: this user may"):
        profiles.keep(profile, tmp_path / "p.json", tmp_path, tmp_path)


def test_a_report_is_found_by_its_name_alone(tmp_path: Path) -> None:
    """A file that says that its report lies elsewhere has none."""
    (commit,) = make_repository(tmp_path / "repository", ["One"])
    secret = tmp_path / "secret" / "key"
    secret.parent.mkdir()
    secret.write_text("secret")
    profile = profile_at(commit, 1)
    profile.subjects[0].report = "../secret/key"
    folder = tmp_path / "given"
    folder.mkdir()
    model.save(profile, folder / "p.json")
    done = forks.run(
        ["record", folder / "p.json"], tmp_path / "repository", {"HOME": str(tmp_path)}
    )
    assert done.returncode == Exit.PASS, done.stderr
    assert not list((tmp_path / "repository").rglob("*.ncu-rep"))
    assert "raw report ../secret/key is not beside it" in done.stderr
