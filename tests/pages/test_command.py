"""`flashbench publish` on a real repository with results of real run files."""

import csv
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import forks
import pytest
from history.project import make_repository

from flashbench import runfile
from flashbench.history.to_asv import keep
from flashbench.runfile import BuildIdentity

ROOT = Path(__file__).parents[2]
SUBJECT = 'Use <script>alert(1)</script> & "quotes", it\'s faster \u202e'
BODY = "It was slow.\n\n  <b>indented</b>\n\nReviewed-by: A"
MACHINE = "box"


def git(repository: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=A &lt;Uthor", "-c", "user.email=a@example.org"]
    command = ["git", "-C", str(repository), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def flashbench(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = forks.run(arguments, directory)
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Three commits; the second and third measured, as `flashbench record` keeps a run file."""
    folder = tmp_path_factory.mktemp("project")
    git(folder, "init", "-q", "-b", "main")
    run = runfile.read(ROOT / "results/cpu.json")
    for number, subject in enumerate(["A kernel", SUBJECT, "Tell what it does"]):
        git(folder, "commit", "-q", "--allow-empty", "-m", subject, "-m", BODY)
        if number:
            for candidate in run.candidates:
                if not candidate.baseline:
                    candidate.build = BuildIdentity(commit=git(folder, "rev-parse", "HEAD"))
            keep(run, "run", folder / ".asv/results", folder, machine=MACHINE)
    return folder


def test_publish_makes_the_site(repository: Path) -> None:
    """The page's path on stdout, a summary on stderr, and the newest commit's verdicts on the
    page."""
    done = flashbench(repository, "publish")
    assert (done.returncode, done.stdout) == (0, f"{repository}/.asv/site/index.html\n")
    assert "3 commits, 48 series: " in done.stderr
    site = repository / ".asv/site"
    overview = (site / "index.html").read_text()
    shown = flashbench(ROOT, "show", "results/cpu.json", "--format", "csv").stdout
    verdicts = Counter(row["verdict"] for row in csv.DictReader(shown.splitlines()))
    assert verdicts.total() == 24
    for verdict, count in verdicts.items():
        assert f"{verdict} {count}" in overview
    (machine,) = site.glob("machine-*.html")
    assert '<td class="FASTER">FASTER</td>' in machine.read_text()
    newest = git(repository, "rev-parse", "HEAD~1")
    page = (site / f"commits/{newest}.html").read_text()
    assert "Use &lt;script&gt;alert(1)&lt;/script&gt; &amp; &#34;quotes&#34;" in page
    assert "\\u202e" in page
    assert "A &amp;lt;Uthor" in page
    assert "It was slow.\n\n  &lt;b&gt;indented&lt;/b&gt;\n\nReviewed-by: A\n</pre>" in page
    assert "<caption>48 series</caption>" in page
    again = flashbench(repository, "publish")
    assert "0 of " in again.stderr


def test_publish_chooses_commits_and_machines(repository: Path, tmp_path: Path) -> None:
    """Shows the requested tip and machine, and reports the rest as skipped."""
    done = flashbench(
        repository, "publish", "--revision", "HEAD~1", "--machine", MACHINE, "-o", str(tmp_path)
    )
    assert done.returncode == 0
    assert "1 measured commit not among those of HEAD~1" in done.stderr
    assert len(list((tmp_path / "commits").iterdir())) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--results", "nowhere"], 2, "nowhere: no history can be read"),
        (["--revision", "--output=x"], 2, "invalid revision"),
        (["--revision", "no-such-branch"], 2, "is no commit of"),
        (["--machine", "other"], 2, "no machine 'other'; there is box"),
        (["--revision", "HEAD~2"], 4, "no results for the 1 commits up to HEAD~2"),
        (["--revision", "HEAD~2"], 4, "or run this in the measured repository"),
        (["--output", ".git"], 2, "has files that are no site of flashbench"),
    ],
)
def test_publish_says_what_is_wrong(
    repository: Path, arguments: list[str], code: int, said: str
) -> None:
    """One line on stderr with the fix, nothing on stdout, and the exit code of the contract."""
    done = flashbench(repository, "publish", *arguments)
    assert done.returncode == code
    assert said in done.stderr.splitlines()[-1]
    assert done.stdout == ""


def test_publish_needs_a_repository(tmp_path: Path) -> None:
    """Commits come from git: elsewhere there is nothing to publish."""
    done = flashbench(tmp_path, "publish")
    assert done.returncode == 2
    assert "not in a git working tree" in done.stderr


@pytest.mark.parametrize("command", ["publish", "history"])
def test_a_repository_without_a_history_has_nothing_to_show(tmp_path: Path, command: str) -> None:
    """Nothing was measured yet: exit code 4, not that of a usage error."""
    make_repository(tmp_path, ["One"])
    done = flashbench(tmp_path, command)
    assert done.returncode == 4
    assert "there is no history yet; measure one with `asv run`" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
