"""JUnit XML for Jenkins, GitLab and others: one test case per row of the table.

There is no standard, so only elements of both Ant's and Jenkins' schemas are written. Neither has
properties of a test case: its numbers are `key=value` lines in its `system-out`.
"""

from xml.etree import ElementTree

from flashbench.render.escape import attachment_free
from flashbench.table import FAILED, Document, Row, Value, significant

# The judged time, by view: of the candidate, of B, of any candidate (detail), of a baseline alone.
_TIMES = ("candidate_us", "b_us", "p50_us", "sdpa_us", "torch_us")
_SKIPPED = ("UNDECIDED", "SLOWER?", "NOT REACHED")
_FINE = ("FASTER", "FASTER?", "SAME", "PASSED", "ok", "")


def render(document: Document) -> str:
    """SLOWER and WRONG are failures, UNDECIDED and SLOWER? are skipped, NOT MEASURED is an error.

    `--allow` changes only the exit code, not these. Control characters, which XML cannot contain,
    are shown as \\x1b.
    """
    cases = [_test_case(document, row) for row in document.rows]
    counts = {
        kind: str(sum(case.find(tag) is not None for case in cases))
        for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
    }
    totals = {"tests": str(len(cases))} | counts
    suites = ElementTree.Element("testsuites", {"name": "flashbench"} | totals)
    del suites.attrib["skipped"]  # which Jenkins' schema allows in a suite alone
    suite = ElementTree.SubElement(suites, "testsuite", {"name": document.view} | totals)
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in _properties(document):
        ElementTree.SubElement(properties, "property", {"name": name, "value": value})
    suite.extend(cases)
    output = [document.verdict, *document.header, *_notes(document), *document.footer]
    _text_element(suite, "system-out", output)
    ElementTree.indent(suites, space=" ")
    text = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _test_case(document: Document, row: Row) -> ElementTree.Element:
    attributes = {"name": _text(row, "case"), "classname": _class_name(document, row)}
    microseconds = next((row[key].value for key in _TIMES if key in row), None)
    if isinstance(microseconds, float):
        attributes["time"] = f"{microseconds / 1e6:.12f}"  # no exponent: the schema has a decimal
    case = ElementTree.Element("testcase", attributes)
    outcome, reason = _outcome(row), _text(row, "reason")
    if outcome not in _FINE:
        kind = "failure" if outcome in FAILED else "skipped" if outcome in _SKIPPED else "error"
        speedup = _text(row, "speedup") if "speedup" in row and row["speedup"].value else ""
        who = f"{_text(row, 'candidate')} on " * bool(_text(row, "candidate"))
        parts = [outcome, who + _text(row, "case"), f"speed-up {speedup}" * bool(speedup), reason]
        problem = ElementTree.SubElement(case, kind, {"message": ": ".join(filter(None, parts))})
        if kind != "skipped":
            problem.set("type", outcome)
    keys = [column.key for column in document.columns if column.key in row]
    values = ((key, row[key].value) for key in keys if key != "case")
    _text_element(case, "system-out", [f"{k}={_value(v)}" for k, v in values if v is not None])
    return case


def _outcome(row: Row) -> str:
    """The verdict, or in the detail view the status; a wrong result fails in both."""
    if "verdict" in row:
        return _text(row, "verdict")
    status = _text(row, "status")
    return "WRONG" if status == "wrong" else status


def _class_name(document: Document, row: Row) -> str:
    parts = (_text(row, key) for key in ("file", "candidate") if key in row)
    return "/".join([*parts, document.view])


def _text(row: Row, key: str) -> str:
    return attachment_free(row[key].text) if key in row else ""


def _properties(document: Document) -> list[tuple[str, str]]:
    found = []
    for key, value in document.summary.items():
        items = value.items() if isinstance(value, dict) else [("", value)]
        for inner, number in items:
            if number is not None:
                name = f"{key}:{inner}" if inner else key
                found.append((attachment_free(name), _value(number)))
    return found


def _notes(document: Document) -> list[str]:
    return [f"{note.code}: {note.message}" for note in document.notes]


def _value(value: Value) -> str:
    return attachment_free(str(significant(value)))


def _text_element(parent: ElementTree.Element, tag: str, lines: list[str]) -> None:
    text = "".join(f"{attachment_free(line)}\n" for line in lines if line)
    if text:
        ElementTree.SubElement(parent, tag).text = f"\n{text}"
