"""Phrases that read translated, which have an idiom in English."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ("*.py", "*.h", "*.cpp", "*.cu", "*.js", "*.md", "*.html")
REFUSED = re.compile(
    r"""(?P<owner>(?:\"{3}|\#\ |//\ )Of\ )  # name what belongs to it: "The outcome of each case"
    |(?P<like>\bas\ of\ (?:a|an|the|`))  # "as in"; "as of 2.0" is English
    |(?P<whoever>\b[Ww]hoever\b)  # "a reader who"
    |(?P<resumed>\bgone\ on\ with\b)  # "resumed\"""",
    re.VERBOSE,
)


def test_no_phrase_reads_translated() -> None:
    """In comments, docstrings, messages and pages."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *SOURCES], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    assert len(files) > 500  # it looks at the project
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if REFUSED.search(line)
    ]
    assert found == []
