"""Why something has no verdict names the case and the candidate, in every format."""

import numpy as np
import pytest
from synthetic import make_cases, make_run

from flashbench.cli.options import FORMATS
from flashbench.render import render
from flashbench.report import report_one
from flashbench.runfile import Candidate, Result, RunFile
from flashbench.views import speedup
from flashbench.views.of_run import document


@pytest.fixture
def run() -> RunFile:
    """Two cases; ours is right, theirs and its like crash on both, and SDPA's backend on one."""
    made = make_run(
        np.random.default_rng(0), cases=make_cases(2), launches=9, backends=("sdpa:flash",)
    )
    for name in ("theirs", "others"):
        made.candidates.append(Candidate(name=name, spec="kernel:function"))
        for launch in made.launches:
            for case in made.cases:
                made_of = Result(case=case.id, candidate=name, status="crashed", reason="SIGABRT")
                launch.results.append(made_of)
    for launch in made.launches:
        for result in launch.results:
            if (result.case, result.candidate) == (made.cases[0].id, "sdpa:flash"):
                result.status, result.timings, result.reason = "unsupported", [], "no kernel"
    return made


@pytest.mark.parametrize("output_format", FORMATS)
def test_a_reason_names_case_and_candidate(run: RunFile, output_format: str) -> None:
    """Where one candidate of several was never measured, each reason says whose it is."""
    text = render(speedup.document(report_one(run), gate=True), output_format)
    first = run.cases[0].id
    for name in ("theirs", "others"):
        if output_format == "csv":
            assert f"{first},{name}," in text
        elif output_format == "github":
            assert f"::error title=NOT MEASURED%3A {first}::{name}: crashed: SIGABRT" in text
        elif output_format == "junit":
            said = f'message="NOT MEASURED: {name} on {first}: crashed: SIGABRT"'
            assert said in text
        else:
            assert f"{name} on {first} and 1 more: crashed: SIGABRT" in text


@pytest.mark.parametrize("output_format", ["text", "markdown", "json"])
def test_percentiles_say_why_they_are_not_there(run: RunFile, output_format: str) -> None:
    """The view of times has the reasons too, SDPA's among them."""
    text = render(document(run, view="detail"), output_format)
    first = run.cases[0].id
    assert f"theirs on {first} and 1 more: SIGABRT" in text
    assert f"sdpa:flash on {first}: no kernel" in text


def test_annotations_that_stand_for_many_name_the_candidates(run: RunFile) -> None:
    """Above ten rows of a kind, the last annotation names the rest by case and candidate."""
    for name in (f"more{n}" for n in range(6)):
        run.candidates.append(Candidate(name=name, spec="kernel:function"))
    text = render(speedup.document(report_one(run), gate=True), "github")
    assert f"more5 on {run.cases[1].id}: see the summary" in text
