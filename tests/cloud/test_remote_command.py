"""What `flashbench cloud run` refuses before anything is sent, and what it sends of a command."""

from pathlib import Path

import click
import pytest
from cloud.commands import COMPARE, flashbench
from revisions.repository import Repository

from flashbench.cli import cli
from flashbench.cloud.remote_command import parse


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--gpu", "L4", "--ssh", "me@there"], "name a GPU to rent with --gpu, or a machine"),
        (["--ssh", "me@there", "--spot"], "--spot is for a machine that is rented"),
        (["--ssh", "-oProxyCommand=x"], "names no host"),
        (["--ssh", ""], "names no host"),
        (["--ssh", "a,"], "names no host"),
        (["--ssh", "a,b,a"], "names a machine twice"),
        (["--gpu", "L4", "--time-limit", "10m"], "needs 20m or more"),
        (["--gpu", "L4", "--wheel", "none.whl"], "no wheel is there"),
        (["--gpu", "L4", "--bucket", "mine/runs"], "--bucket 'mine/runs' names no bucket"),
        (["--gpu", "L4", "--bucket", "s3://"], "names no bucket"),
        (["--gpu", "L4", "--bucket", "s3://mine/../yours"], "names no bucket"),
        (["--gpu", "L4", "--bucket", "https://account.example"], "names no bucket"),
    ],
)
def test_a_wrong_option_is_one_line(
    words: list[str], says: str, project: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is packed, asked or rented."""
    wheel = Path("w.whl")
    wheel.touch()
    sent = [] if "--wheel" in words else ["--wheel", str(wheel)]
    assert flashbench("cloud", "run", *words, *sent, *COMPARE) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ([], "no command"),
        (["show", "a.json"], "is no command to run on another machine"),
        (["plan", "run"], "is no command to run on another machine"),
        (["profile", "p.json"], "CASE|FILE names something of this machine"),
        (["compare", "first", "HEAD", "-o", "t.md"], "-o names something of this machine"),
        (["compare", "first", "HEAD", "--launches", "x"], "'x' is not a whole number"),
        (["compare", "first", "nowhere"], "is no commit"),
        (["run", "-o", "k.py"], "k.py: not a JSON run file"),
        (["compare", "first", "HEAD@{0}"], "means nothing in a copy of the repository"),
    ],
)
def test_a_command_that_makes_no_sense_there_is_refused_here(
    command: list[str], says: str, project: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before a machine is paid for."""
    Path("w.whl").touch()
    sent = ["--gpu", "L4", "--wheel", "w.whl", "--no-preflight"]
    assert flashbench("cloud", "run", *sent, "--", *command) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("named", "texts", "worktree"),
    [
        ([], [], True),
        (["--candidate", "first"], ["first"], False),
        (["--against", "first"], ["first"], True),
        (["--candidate", "k:f", "--against", "sdpa"], [], True),
        (["--candidate", "HEAD", "--against", "sdpa:math"], ["HEAD"], False),
    ],
)
def test_what_a_profile_needs_is_sent(
    named: list[str], texts: list[str], worktree: bool, project: Repository
) -> None:
    """Commits for revisions, the working tree for functions, nothing for a baseline."""
    words = ["profile", "b1-h1-q16-d8-fp32-full-cpu", *named]
    found = parse(cli, click.Context(cli, info_name="flashbench"), words)
    assert (found.texts, found.worktree) == (texts, worktree)


@pytest.mark.parametrize(
    "named", [["-o", "a b.json"], ["-oa b.json"], ["--output", "a b.json"], ["--output=a b.json"]]
)
def test_a_run_file_is_named_anew_there(named: list[str], project: Repository) -> None:
    """However it was written, the name here is not sent."""
    words = ["run", "--launches", "3", *named, "--shape=1,1,16,8"]
    found = parse(cli, click.Context(cli, info_name="flashbench"), words)
    assert found.words == ["run", "--launches", "3", "--shape=1,1,16,8"]
    assert (found.flag, found.run_file) == ("--output", Path("a b.json"))
