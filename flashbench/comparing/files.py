"""Judge what is measured already: run files, and files of other tools."""

import filecmp
from collections.abc import Collection
from pathlib import Path

from flashbench.comparing.rule import DEFAULT, Rule, rule_of
from flashbench.errors import InvalidInputError
from flashbench.inputs import descriptor
from flashbench.other_tools.judge import OtherToolsReport, report_other_tools
from flashbench.report import Report, report_one, report_two
from flashbench.run_reader import read_for_analysis
from flashbench.runfile import RunFile
from flashbench.suites import suite_file
from flashbench.suites.judging import report_suite

ONLY_REVISIONS = "is for measuring two revisions; drop it, or name revisions instead of files"


def is_file(name: str | Path) -> bool:
    """A path, a file of any kind, a folder of run files, or a name that can only mean a file."""
    if isinstance(name, Path):
        return True
    path = Path(name)
    try:
        return (
            (path.exists() and not path.is_dir())  # a pipe too: its reader reports what it is
            or name.endswith((".json", "/"))
            or descriptor(path) is not None
            or any(path.glob("*.json"))
        )
    except (OSError, ValueError):  # too long for a path, or malformed
        return False


def require_files(a: str | Path, b: str | Path | None = None) -> None:
    """Raise InvalidInputError if one of two names is a file and the other is not."""
    for side, other in ((a, b), (b, a)):
        if side is not None and other is not None and not is_file(side):
            raise InvalidInputError(f"{side}: no such file; {other} is one, so both must be")


def one_file(a: str | Path, b: str | Path | None) -> str:
    """A sentence if two names that exist are of one file or folder, or of copies of a file; else
    "". Shared launches differ by nothing, which is no evidence that builds do not."""
    if b is None or not (Path(a).exists() and Path(b).exists()):
        return ""
    if Path(a).samefile(b):
        what = "the same file" if Path(a).is_file() else "the same folder"
    elif Path(a).is_file() and Path(b).is_file() and filecmp.cmp(a, b, shallow=False):
        what = "copies of one file"
    else:
        return ""
    return f"{a} and {b} are {what}: their launches are shared, and judged as independent"


def judge(
    a: Path | RunFile,
    b: Path | RunFile | None,
    said: Rule,
    default: Rule = DEFAULT,
    *,
    against: str = "sdpa",
    allow: Collection[str] = (),
) -> Report | OtherToolsReport:
    """Judge B against A, or the candidates of A alone against its baseline.

    said: outranks the rule by which a file of two revisions was decided; default: for other files.
    Paths may name files of other tools, folders of such, and files of suites. Raises as
    `report_other_tools`, `report_one` and `report_two` do.
    """
    rule = said.over(default)
    if isinstance(a, Path) and not isinstance(b, RunFile):
        if b is None and suite_file.is_suite(a):
            return report_suite(suite_file.read(a), said.tolerance, said.alpha)
        judged = report_other_tools(a, b, against=against, allow=allow, **rule.arguments)
        if judged is not None:
            return judged
    if b is None:
        run = _run(a)
        return report_one(run, against=against, **rule_of(run, said, default).arguments)
    if against != "sdpa":
        raise InvalidInputError(
            "--against best is for one run file; two are compared over the baseline"
        )
    return report_two(_run(a), _run(b), allow=allow, **rule.arguments)


def _run(side: Path | RunFile) -> RunFile:
    return side if isinstance(side, RunFile) else read_for_analysis(side)
