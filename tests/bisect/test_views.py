"""The tables of `bisect` and `builds`: hostile subjects are text, and every answer has its code."""

from pathlib import Path

import pytest

from flashbench.bisect.graph import graph_of
from flashbench.bisect.question import Range
from flashbench.bisect.result import (
    CONCLUSION_EXIT_CODES,
    BisectResult,
    Conclusion,
    Cost,
    TriedCommit,
)
from flashbench.errors import Exit
from flashbench.render import render
from flashbench.revisions import Project, Revision
from flashbench.revisions.commits import Commit
from flashbench.revisions.ledger import RevisionOutcome
from flashbench.views import bisect, builds

GOOD, SLOW, BAD = ("a" * 40, "b" * 40, "c" * 40)
BUILT = RevisionOutcome(commit=SLOW, status="built", stage="load", build="d" * 32, toolchain="e")
HOSTILE = "<script>x</script>\x1b[31m@all"


@pytest.fixture
def found() -> BisectResult:
    commits = (Commit(SLOW, (GOOD,), 0, "A", HOSTILE), Commit(BAD, (SLOW,), 1, "A", "Later"))
    project = Project(Path("repository"), "kernel:attention")
    ends = Revision("v1", GOOD), Revision("HEAD", BAD)
    asked = Range(project, *ends, commits, graph_of(commits), good_subject="A kernel")
    return BisectResult(
        asked,
        "speed",
        Conclusion.FOUND,
        "bbbbbbbbbbbb made it slower",
        [
            TriedCommit(-1, BUILT),
            TriedCommit(0, BUILT, [0.03, 0.031], 0.991, "first slower"),
            TriedCommit(1, BUILT, [0.03], 0.009),
        ],
        Cost(commits=2, builds=1, build_seconds=12.0, launches=3, device_seconds=9.5),
        candidates=(0,),
        probability=0.991,
    )


TEXT = """\
v1 (aaaaaaaaaaaa) to HEAD (cccccccccccc): 2 commits, for speed

commit        status  role          launches  slower %   P %  subject
------------  ------  ------------  --------  --------  ----  ------------------------------
aaaaaaaaaaaa  built                        0         -     -  A kernel
bbbbbbbbbbbb  built   first slower         2     +3.10  99.1  <script>x</script>\\x1b[31m@all
cccccccccccc  built                        1     +3.05   0.9  Later

FOUND: bbbbbbbbbbbb made it slower
cost: 2 commits tried, 1 built now, 3 launches; device time 9.5 s; builds 12 s
"""


def test_text_is_what_it_was(found: BisectResult) -> None:
    """The table of a bisection, in full."""
    assert render(bisect.document(found), "text") == TEXT


@pytest.mark.parametrize("output_format", ["text", "markdown", "csv", "json"])
def test_subjects_are_text(found: BisectResult, output_format: str) -> None:
    """A commit message acts on no reader, in either table."""
    for document in (
        bisect.document(found),
        builds.document("builds", [builds.BuildRow(SLOW, HOSTILE, BUILT)]),
    ):
        text = render(document, output_format)
        assert "\x1b" not in text
        if output_format == "markdown":
            assert "<script>" not in text


def test_each_answer_has_its_exit_code() -> None:
    """A found culprit is a regression, none is a pass, and an unknown one is undecided."""
    assert CONCLUSION_EXIT_CODES == {
        Conclusion.FOUND: Exit.REGRESSION,
        Conclusion.NONE: Exit.PASS,
        Conclusion.HIDDEN: Exit.UNDECIDED,
        Conclusion.UNDECIDED: Exit.UNDECIDED,
    }
