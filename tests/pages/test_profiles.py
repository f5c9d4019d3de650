"""Profiles on the pages of their commits."""

import copy
from dataclasses import replace
from pathlib import Path

from pages.sample import HOSTILE, content

from flashbench.history.profiles import Kept
from flashbench.profile import model
from flashbench.site.case_names import in_short
from flashbench.site.content import Content, case_page, commit_page, machine_page
from flashbench.site.publish import publish

GPU = Path(__file__).parents[1] / "golden" / "profile_gpu.json"


def profiled(*conflicts: float, machine: str = "box") -> Content:
    """The sample with a profile of each of its first commits, with so many bank conflicts."""
    known, stored = content(), model.read(GPU)
    kept = []
    for commit, many in zip(known.history.commits, conflicts, strict=False):
        one = copy.deepcopy(stored)
        for kernel in one.subjects[0].kernels:
            kernel.counters["conflicts"] = many
        kept.append(Kept(machine, commit.id, one))
    return replace(known, profiles=tuple(kept))


def test_a_commit_shows_its_profile_and_what_changed(tmp_path: Path) -> None:
    """Bottleneck with its numbers, floors, and the counters against the profile before."""
    known = profiled(1e6, 2e6)
    publish(known, tmp_path)
    first, second, third = (
        (tmp_path / commit_page(commit.id)).read_text() for commit in known.history.commits[:3]
    )
    bound = "tensor cores: tensor cores 81 % of peak; instructions issued in 39 % of cycles"
    assert bound in first
    assert "arithmetic 173.4 us, 89 % of the time" in first
    assert "bank conflicts" not in first
    assert "same time, twice the bank conflicts" in second
    assert f'href="../{commit_page(known.history.commits[0].id)}"' in second
    assert "Profiled" not in third
    _, profiles = (tmp_path / machine_page("box")).read_text().split("<h2>Profiled</h2>")
    assert profiles.count(bound) == 2
    case = known.profiles[0].profile.case.id
    assert profiles.count(f'title="{case}">{in_short(case)}</th>') == 2
    assert "against the profile before" in second
    assert "against the profile before" not in first


def test_a_profile_that_is_recorded_later_makes_its_page_anew(tmp_path: Path) -> None:
    """And the machine's, but no other: the page before it stays as it was."""
    publish(profiled(1e6), tmp_path)
    assert publish(profiled(1e6, 2e6), tmp_path).written == 2


def test_texts_of_a_profile_are_escaped(tmp_path: Path) -> None:
    """Names of candidates and machines come from files."""
    known = profiled(1e6, machine=HOSTILE)
    candidate = known.profiles[0].subject.candidate
    candidate.name = candidate.spec = candidate.build.revision = HOSTILE
    publish(known, tmp_path)
    page = (tmp_path / commit_page(known.history.commits[0].id)).read_text()
    assert "Profiled" in page
    assert "<script>window" not in page
    assert "<img" not in page


def test_a_case_shows_its_profiles(tmp_path: Path) -> None:
    """The newest first, each with its commit."""
    known = profiled(1e6, 2e6)
    case = known.profiles[0].profile.case.id
    first, *others = known.graphs
    graphs = (replace(first, series=replace(first.series, case=case)), *others)
    publish(replace(known, graphs=graphs), tmp_path)
    page = (tmp_path / case_page(case)).read_text()
    newer, older = (f'href="../{commit_page(known.history.commits[i].id)}"' for i in (1, 0))
    _, profiles = page.split("<h2>Profiled</h2>")
    assert profiles.index(newer) < profiles.index(older)
    assert "same time, twice the bank conflicts" in profiles
    assert "Profiled" not in (tmp_path / case_page(graphs[1].series.case)).read_text()
