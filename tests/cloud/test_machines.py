"""`flashbench cloud run` on two machines, each a real sshd: shards, lost machines, the same command
again."""

import contextlib
import os
import shlex
import signal
import time
from pathlib import Path

import pytest
from cloud.commands import flashbench, job_of, jobs, said, started, until
from cloud.machine import Machine, needs_sshd
from revisions.repository import Repository

from flashbench.runfile import read

pytestmark = [
    pytest.mark.slow,
    needs_sshd,
]
RUN = ["--", "run", "--shape", "1,1,16,8", "--dtype", "fp32", "-o", "out.json"]


@pytest.fixture
def both(machine: Machine, other: Machine, sent: list[str], tmp_path: Path) -> list[str]:
    """The options that name both machines."""
    config = tmp_path / "ssh config"
    gone = "Host gone never\n  HostName 127.0.0.1\n  Port 1\n"
    config.write_text(machine.config.read_text() + other.config.read_text() + gone)
    return ["cloud", "run", "--ssh", "machine,other", "--ssh-config", str(config), *sent]


def whole() -> bool:
    """Whether the run file has all of the sample's results, and nothing else is left."""
    run = read(Path("out.json"))
    assert run.settings.shard == ""
    assert not Path("out.json.parts").exists()
    return all(launch.complete for launch in run.launches)


def test_machines_share_the_cases(
    machine: Machine,
    other: Machine,
    both: list[str],
    project: Repository,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each measures a shard; the parts become one file and one table. The same command again
    measures nothing, also without the file."""
    assert flashbench(*both, *RUN) == 0
    assert whole()
    shown = capsys.readouterr()
    assert "plan for machine: 2 cases" in shown.err
    assert "other: flashbench-" in shown.err
    assert "UNDECIDED 2" in shown.out
    assert [said(one).count("run ") for one in (machine, other)] == [1, 1]
    Path("out.json").unlink()
    assert flashbench(*both, *RUN) == 0
    assert whole()
    assert [said(one).count("run ") for one in (machine, other)] == [1, 1]
    assert not jobs(machine)
    assert not jobs(other)
    assert flashbench(*both, "--dry-run", *RUN[:-1], "new.json") == 0
    assert "--shard 1/2:" in capsys.readouterr().out  # by the times of the first


def test_cases_of_a_lost_machine_go_to_another(
    machine: Machine,
    other: Machine,
    both: list[str],
    project: Repository,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One that is gone in the middle, for longer than is waited. What it spent is in the total."""
    (other.home / "seconds").write_text("3600")
    (other.home / "since").write_text(f"{int(time.time()) - 1000}")
    with started([*both, "--lost-after", "1s", *RUN]) as home:
        assert home.stderr is not None
        assert any("other: working" in line for line in home.stderr)
        other.kill()
        try:
            _, errors = home.communicate(timeout=120)
        finally:
            other.start()
    assert home.returncode == 0, errors
    assert "other was lost; machine takes its cases" in errors
    assert whole()
    assert 1000 <= read(Path("out.json")).costs.lost_seconds < 1120
    assert said(machine).count("run ") == 2
    assert flashbench("cloud", "stop", job_of(other).name) == 0  # it went on by itself


def test_a_machine_that_is_none_costs_only_time(
    machine: Machine, both: list[str], project: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its cases go to the one that there is; without any, exit code 4 and one reason."""
    both[both.index("machine,other")] = "gone,machine"
    assert flashbench(*both, *RUN) == 0
    assert whole()
    assert said(machine).count("run ") == 2
    both[both.index("gone,machine")] = "gone,never"
    assert flashbench(*both, *RUN[:-1], "none.json") == 4
    assert "gone: gone: ssh: connect" in capsys.readouterr().err.splitlines()[-1]


def followers(config: str) -> int:
    """Processes that follow a machine's job for a command with this configuration."""
    found = 0
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = process.read_bytes().decode(errors="replace")
            found += "--part" in words and config in words
    return found


def test_home_killed_in_the_middle_is_found_again(
    machine: Machine, other: Machine, both: list[str], project: Repository
) -> None:
    """Nothing of it stays here. The same command waits for the jobs that it began, and joins what
    is there already."""
    (other.home / "seconds").write_text("4")
    config = both[both.index("--ssh-config") + 1]
    with started([*both, *RUN]) as home:
        until(lambda: "run" in said(machine) and "run" in said(other))
        assert followers(config) >= 1
        home.send_signal(signal.SIGKILL)
    until(lambda: followers(config) == 0, 2)
    # As if a follower had been killed while it wrote its part.
    Path("out.json.parts/.part-1-of-2.json.0123abcd.part").touch()
    assert flashbench(*both, *RUN) == 0
    assert whole()
    assert [said(one).count("run ") for one in (machine, other)] == [1, 1]


@pytest.mark.parametrize(
    ("options", "command", "says"),
    [
        ([], ["compare", "first", "HEAD"], "share the cases of `run`; name one machine for `comp"),
        ([], ["run", "--shard", "1/2", "-o", "x.json"], "drop --shard"),
        ([], ["run"], "name the run file"),
        (["--no-wait"], ["run", "-o", "x.json"], "--no-wait"),
        ([], ["run", "--shape", "1,1,16,8", "--causal", "full", "--dtype", "fp32", "-o", "x.json"],
         "has only 1 cases; a case is never split"),
    ],
)  # fmt: skip
def test_what_machines_cannot_share_is_one_line(
    options: list[str],
    command: list[str],
    says: str,
    both: list[str],
    project: Repository,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before anything is sent."""
    assert flashbench(*both, *options, "--", *command) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
    assert not list(Path(os.environ["XDG_STATE_HOME"]).rglob("job.json"))


def test_rented_machines_share_limits(
    sent: list[str], project: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dry run shows the command of each, which holds by itself; nothing is rented without yes."""
    several = ["cloud", "run", "--gpu", "L4", "--machines", "2", "--money-limit", "5", *sent]
    assert flashbench(*several, "--dry-run", *RUN, "--budget", "60s") == 0
    name, command, other_name, other = capsys.readouterr().out.splitlines()
    assert (name, other_name) == ("# L4 1", "# L4 2")
    assert all("--budget=30.000000s" in line for line in (command, other))
    _, *first = shlex.split(command)
    assert flashbench(*first[:2], "--dry-run", *first[2:]) == 0
    shown = capsys.readouterr()
    assert "its whole life 2.50 USD" in shown.out
    assert "--shard 1/2" in shown.out
    assert flashbench(*several, *RUN) == 2
    assert "nothing was rented" in capsys.readouterr().err
