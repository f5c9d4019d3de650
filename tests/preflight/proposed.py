"""What a fix does when it is run as printed in the repository that it is for."""

import os
import re
import subprocess
from pathlib import Path

from revisions.repository import IDENTITY

from flashbench.preflight import Finding, run

_AUTHOR = {"GIT_CONFIG_COUNT": "2"}
for number, pair in enumerate(IDENTITY[1::2]):
    key, value = pair.split("=", 1)
    _AUTHOR |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
_OPENS = re.compile(r'"\$\{EDITOR:-vi\}" \+(\d+) (\S+)  # .+')
_SEARCHES = ("git log", "git grep")
# Run here: they change files of the repository, or its commits.
_MENDS = ("git checkout", "git add", "git commit", "git mv", "git rm", "sed -i", "cp ", "git -C")


def findings_of(root: Path) -> list[Finding]:
    report = run(root, "source")
    return [*report.errors, *report.warnings]


def shell(root: Path, command: str) -> str:
    """Run a command in a repository, with an author for its commits; return its output."""
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=root,
        capture_output=True,
        text=True,
        env={**os.environ, **_AUTHOR},
    )
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def mend(root: Path, fix: str, clone: Path) -> None:
    """A command that mends leaves nothing to find, also in a clone."""
    shell(root, fix)
    assert [(one.found, one.fix) for one in findings_of(root)] == [], fix
    if "sed -i" in fix:
        shell(root, "git commit -qam Mend")
    subprocess.run(["git", "clone", "-q", str(root), str(clone)], check=True)
    assert [one.found for one in findings_of(clone)] == [], fix


def try_fix(root: Path, finding: Finding, clone: Path) -> None:
    """One that searches prints something; one that opens an editor names a line that is there."""
    fix = finding.fix
    if opened := _OPENS.fullmatch(fix):
        assert int(opened[1]) <= len((root / opened[2]).read_text().splitlines()), fix
    elif fix.startswith(_SEARCHES):
        assert shell(root, fix)
    elif fix.startswith(_MENDS):
        mend(root, fix, clone)
    else:
        assert re.match(
            r"(mkdir -p \S+ && )?\"\$\{EDITOR|git mergetool|apt-get install \w|rm ", fix
        ), fix
