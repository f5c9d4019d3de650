"""What CI reads: annotations, job summaries, comments and JUnit XML, and that text stays text."""

import re
from collections.abc import Iterator
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import make_cases, make_run

from flashbench.cli import cli
from flashbench.render import github, junit, markdown, text
from flashbench.render.escape import log_line
from flashbench.report import report_one
from flashbench.runfile import Result, RunFile, save
from flashbench.table import Document
from flashbench.views import detail, speedup

HOSTILE = [
    "a\n::error::owned",
    "::add-mask::e",
    "  ::stop-commands::x",
    "##[add-mask]e",
    "title=x,file=y::z%0A::error::w",
    "</details><script>alert(1)</script>",
    "]]><evil/>\x00\x1b[2J\ufffe\ud800",
    "[[ATTACHMENT|/etc/passwd]]",
    "| x | y |\n|---|---|",
    "::" + "y" * 9000,
]
COMMAND = re.compile(r"::(error|warning|notice) title=[^:,]*::.*")


def _run(count: int = 3, speedups: list[float] | float = 1.0, **options: object) -> RunFile:
    return make_run(
        np.random.default_rng(0),
        **({"cases": make_cases(count), "launches": 16, "samples": 4} | options),  # type: ignore[arg-type]
        speedup=speedups,
        between=0.001,
        within=0.002,
    )


def _document(run: RunFile) -> Document:
    return speedup.document(report_one(run), gate=True)


def _hostile(bad: str) -> Document:
    run = _run(30, candidate=bad)
    run.environment.cpu = run.environment.torch = bad
    run.candidates[0].build.commit = bad
    for index, status in ((0, "wrong"), (2, "error")):
        case = run.launches[0].results[index].case
        for launch in run.launches:
            launch.results[index] = Result(case=case, candidate=bad, status=status, reason=bad)
    return _document(run)


def _parsed(xml: str) -> ElementTree.Element:
    return ElementTree.fromstring(xml.encode())  # noqa: S314 - we wrote it


def _parts(page: str) -> tuple[str, str]:
    outside, _, folded = page.partition("<details>")
    return outside, folded


def test_a_comment_starts_with_the_verdict_and_folds_what_is_fine():
    """With many rows, only the slower ones stand outside the fold, and none is lost."""
    speedups = [0.8 if index in (3, 40) else 1.0 for index in range(60)]
    run = _run(60, speedups)
    page = markdown.render(_document(run))
    outside, folded = _parts(page)
    assert page.startswith("**Regression: of 60 cases 2 SLOWER, 58 SAME; worst ")
    assert outside.count("\n| b1-") == outside.count("**SLOWER**") == 2
    assert folded.count("\n| b1-") == 58
    assert all(page.count(f"| {case.id} |") == 1 for case in run.cases)


def test_a_table_without_a_verdict_is_whole():
    """`show` folds nothing, so a README has every row."""
    document = replace(_document(_run(60)), verdict="")
    page = markdown.render(document)
    assert "<details>" not in page
    assert page.count("\n| b1-") == 60


@pytest.mark.parametrize("bad", ["x", "é" * 400, "<" * 5000])
def test_a_comment_keeps_the_limit(bad):
    """A comment fits, however long the names, with the verdict and a count of what is left out."""
    run = _run(512, 0.8, candidate=bad, launches=17)
    for number in range(500):
        case = run.cases[number].id
        different = str(number).translate(str.maketrans("0123456789", "abcdefghij"))
        failed = Result(case=case, candidate=bad, status="error", reason=f"{bad} {different}")
        for launch in run.launches:
            launch.results[2 * number] = failed
    document = _document(run)
    page = markdown.render(document)
    assert len(page.encode()) <= markdown.COMMENT_LIMIT
    assert page.startswith("**Regression: of 512 cases 12 SLOWER")
    assert "lines were left out" in page
    assert page.count("<details>") == page.count("</details>")
    assert len(markdown.comment(document, 700).encode()) <= 700


@pytest.mark.parametrize("slower", [1, 10, 11, 64])
def test_annotations_are_at_most_ten_of_a_kind(slower):
    """GitHub shows ten; the last one lists the rest, so every case is mentioned."""
    speedups = [0.8 if index < slower else 1.0 for index in range(64)]
    lines = github.annotations(_document(_run(64, speedups))).splitlines()
    errors = [line for line in lines if line.startswith("::error ")]
    assert len(errors) == min(slower + 1, 10)  # the first is the verdict
    assert lines == errors
    assert errors[0].startswith("::error title=flashbench%3A Regression::of 64 cases")
    if slower > 9:
        assert f"title={slower - 8} more" in errors[-1]


def test_the_verdict_is_annotated_as_what_it_is():
    """A wrong result is an error titled so, no notice of a regression; a pass is a notice."""
    run = _run(2, 1.0)
    assert github.annotations(_document(run)).startswith("::notice title=flashbench%3A Pass::of 2")
    first = run.launches[0].results
    place = next(i for i, result in enumerate(first) if result.candidate != "sdpa")
    case, name = first[place].case, first[place].candidate
    first[place] = Result(case=case, candidate=name, status="wrong", reason="NaN")
    lines = github.annotations(_document(run)).splitlines()
    assert lines[0].startswith("::error title=flashbench%3A Wrong result::of 2 cases 1 ")
    crashed = Result(case=case, candidate=name, status="crashed", reason="SIGSEGV")
    for launch in run.launches:
        launch.results[place] = crashed
    lines = github.annotations(_document(run)).splitlines()
    assert lines[0].startswith("::error title=flashbench%3A Not measured::of 2 cases 1 ")
    assert lines[1].startswith("::error title=NOT MEASURED%3A")
    assert "crashed: SIGSEGV" in lines[1]


@pytest.mark.parametrize("bad", HOSTILE)
def test_no_command_comes_out_of_a_run_file(bad):
    """The runner finds our annotations and nothing else, in either of its two syntaxes."""
    document = _hostile(bad)
    annotations = github.annotations(document).splitlines()
    assert len(annotations) == 3
    assert all(COMMAND.fullmatch(line) for line in annotations)
    for page in (markdown.render(document), text.render(document)):
        assert not re.search(r"^\s*::", page, re.MULTILINE)
        assert "##[" not in page
    assert "##[" not in github.render(document)


def test_annotations_say_what_the_file_says():
    """Undoing GitHub's escapes gives the reason back, percent signs and colons too."""
    run = _run(1, launches=1)
    reason = "100%0A of 5, 6: at 25%25::x"
    run.launches[0].results[0] = Result(
        case=run.cases[0].id, candidate="ours", status="error", reason=reason
    )
    message = github.annotations(_document(run)).splitlines()[1].split("::", 2)[2]
    for escape, character in (("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):  # the runner's order
        message = message.replace(escape, character)
    assert message == f"ours: error: {reason}"


@given(st.text(alphabet=": \t#[x"))
def test_no_printed_line_is_a_command(line):
    """Wherever the colons are, the line does not begin with two of them."""
    assert not log_line(line).lstrip().startswith("::")
    assert "##[" not in log_line(line)


@pytest.mark.parametrize("bad", HOSTILE)
def test_a_comment_has_no_markup_of_a_run_file(bad):
    """The one fold is ours, and no cell splits a row or starts a table."""
    page = markdown.render(_hostile(bad))
    assert re.findall(r"<[^>]*>", page) == ["<details>", "<summary>", "</summary>", "</details>"]
    rows = [line.replace("\\|", "") for line in page.splitlines() if line.startswith("|")]
    assert len({row.count("|") for row in rows}) == 1


def _valid(element: ElementTree.Element) -> Iterator[str]:
    """What is wrong by the schemas of Ant and Jenkins: order of children, attributes, numbers."""
    children = {
        "testsuites": r"(testsuite )*",
        "testsuite": r"(properties )?(testcase )*(system-out )?(system-err )?",
        "properties": r"(property )+",
        "testcase": r"((skipped |error |failure )?)(system-out )?",
    }
    attributes = {
        "testsuites": ({"name"}, {"tests", "failures", "errors"}),
        "testsuite": ({"name", "tests", "failures", "errors"}, {"skipped"}),
        "testcase": ({"name", "classname"}, {"time"}),
        "property": ({"name", "value"}, set()),
        "failure": ({"message", "type"}, set()),
        "error": ({"message", "type"}, set()),
        "skipped": ({"message"}, set()),
    }
    names = "".join(f"{child.tag} " for child in element)
    if not re.fullmatch(children.get(element.tag, ""), names):
        yield f"{element.tag} holds {names}"
    needed, allowed = attributes.get(element.tag, (set(), set()))
    if not needed <= set(element.attrib) <= needed | allowed:
        yield f"{element.tag} has {set(element.attrib)}"
    for name, pattern in (("time", r"\d+\.\d+"), ("tests", r"\d+"), ("skipped", r"\d+")):
        if name in element.attrib and not re.fullmatch(pattern, element.attrib[name]):
            yield f"{name}={element.attrib[name]}"
    for child in element:
        yield from _valid(child)


@pytest.mark.parametrize("bad", ["ours", *HOSTILE])
@pytest.mark.parametrize("view", ["speedup", "detail"])
def test_junit_is_valid(bad, view):
    """Whatever names and reasons hold, it parses, fits the schema and attaches no file."""
    document = _hostile(bad) if view == "speedup" else detail.document(report_one(_run()))
    xml = junit.render(document)
    assert list(_valid(_parsed(xml))) == []
    assert "[[" not in xml


@settings(max_examples=100)
@given(st.text())
def test_junit_holds_any_text(reason):
    """Every character that XML cannot hold is shown as an escape."""
    run = _run(1, launches=1)
    run.launches[0].results[0] = Result(
        case=run.cases[0].id, candidate="ours", status="error", reason=reason
    )
    xml = junit.render(_document(run))
    assert _parsed(xml).find(".//error") is not None


def test_junit_counts_what_it_holds():
    """Failures, errors and skipped are counted as readers count them; times are in seconds."""
    run = _run(4, [1.0, 0.8, 1.0, 1.0], launches=8)
    for launch in run.launches:
        for index, status in ((4, "wrong"), (6, "timeout")):
            case = launch.results[index].case
            launch.results[index] = Result(case=case, candidate="ours", status=status)
    suite = _parsed(junit.render(_document(run)))[0]
    kinds = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    for attribute, tag in kinds.items():
        assert int(suite.attrib[attribute]) == len(suite.findall(f"testcase/{tag}"))
    assert [suite.attrib[name] for name in ("tests", "failures", "errors")] == ["4", "2", "1"]
    first, _, wrong, _ = suite.findall("testcase")
    assert float(first.attrib["time"]) == pytest.approx(1e-3, rel=0.1)
    assert "time" not in wrong.attrib


def test_undecided_is_skipped():
    """One launch decides nothing: a skipped test case, neither passed nor failed."""
    suite = _parsed(junit.render(_document(_run(2, launches=1))))[0]
    assert suite.attrib["skipped"] == "2"
    assert suite.attrib["failures"] == suite.attrib["errors"] == "0"


def test_step_summary(tmp_path, monkeypatch):
    """The table is added to the file of $GITHUB_STEP_SUMMARY; the log has the annotations alone."""
    save(_run(2, [1.0, 0.8]), tmp_path / "run.json")
    summary, comment = tmp_path / "summary.md", tmp_path / "comment.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    arguments = ["compare", "--format", "github", "-o", str(comment), str(tmp_path / "run.json")]
    done = CliRunner().invoke(cli, arguments)
    assert all(COMMAND.fullmatch(line) for line in done.stdout.splitlines())
    assert summary.read_text() == f"before\n\n{comment.read_text()}"
    assert comment.read_text().startswith("**Regression")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "none" / "summary.md"))
    done = CliRunner().invoke(cli, arguments)
    assert "summary.md: cannot be written" in str(done.exception)


def test_step_summary_that_is_nearly_full(tmp_path, monkeypatch):
    """What earlier commands of the step wrote counts against GitHub's limit."""
    save(_run(40), tmp_path / "run.json")
    summary = tmp_path / "summary.md"
    summary.write_text("x" * (github.SUMMARY_LIMIT - 3000))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    CliRunner().invoke(cli, ["compare", "--format", "github", str(tmp_path / "run.json")])
    assert summary.stat().st_size <= github.SUMMARY_LIMIT
    assert "lines were left out" in summary.read_text()
