"""`flashbench cloud run --ssh` on a real sshd: what ends and what is downloaded, after any kill."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from cloud import wheel
from cloud.commands import COMPARE, alive, flashbench, job_of, jobs, said, started, until
from cloud.machine import Machine, needs_sshd
from revisions.repository import Repository
from synthetic import make_cases, make_run

from flashbench.cloud import job
from flashbench.cloud.follow import take_home
from flashbench.profile import model as profiles
from flashbench.runfile import Costs, read, save

GPU = Path(__file__).parents[1] / "golden" / "profile_gpu.json"
pytestmark = [
    pytest.mark.slow,
    needs_sshd,
]


def words(machine: Machine, sent: Sequence[str], *more: str) -> list[str]:
    found = ["cloud", "run", "--ssh", "machine", "--ssh-config", str(machine.config)]
    return [*found, *sent, *more]


def kill_home_while_it_measures(machine: Machine, arguments: Sequence[str]) -> str:
    """Start the command, kill it without a warning once the machine works; the job's name."""
    with started(arguments) as home:
        until(lambda: "compare" in said(machine))
        home.send_signal(signal.SIGKILL)
    return job_of(machine).name


def test_a_command_is_gated_and_measured_there_and_its_run_file_comes_home(
    machine: Machine, project: Repository, sent: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The new revision is gated, then all is as if it ran here: run file, table, exit code.
    HEAD is sent, not what was changed since. The machine keeps nothing; the same command again
    measures nothing."""
    project.write("NOTES", "changed since")
    begun = time.time()
    assert flashbench(*words(machine, sent, "--time-limit", "1h"), *COMPARE) == 3
    deadline = float((machine.home / "deadline").read_text()) - begun
    assert 3000 < deadline < 3600 - (time.time() - begun)  # a tenth less than what is left
    assert said(machine).splitlines() == [
        "gate second HEAD --no-speed",
        "compare second first HEAD",
    ]
    assert len(read(Path("out.json")).launches) == 2
    assert capsys.readouterr().out == "a table\n"
    assert not jobs(machine)
    assert flashbench(*words(machine, sent, "--time-limit", "1h"), *COMPARE) == 3
    assert "started before" in capsys.readouterr().err
    assert len(said(machine).splitlines()) == 2


def test_the_plan_knows_what_came_home_from_the_machine(
    machine: Machine, project: Repository, sent: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """First it is a guess; what one job took there is known to the plan of the next."""
    assert flashbench(*words(machine, sent), *COMPARE) == 3
    guess = capsys.readouterr().err
    assert "plan for machine: " in guess
    assert "partly a guess" in guess
    dry = words(machine, sent, "--dry-run", "--", "run", "--baseline-only", "--launches", "2")
    assert flashbench(*dry, "--shape", "1,1,16,8", "--dtype", "fp32") == 0
    known = capsys.readouterr().err
    assert "plan for Test CPU, 2 threads: " in known
    assert "guess" not in known


def test_a_profile_comes_home_with_its_raw_reports(
    machine: Machine, project: Repository, sent: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Under the name at home; the same command again fetches nothing, another is refused."""
    sample = profiles.read(GPU)
    for one in sample.subjects:
        one.report = f"p-{one.candidate.name}.ncu-rep"
    profiles.save(sample, machine.home / "profile.json")
    case = "b1-h16-q4096-d128-bf16-full-cuda"
    command = words(machine, sent, "--", "profile", case, "--candidate", "HEAD", "-o", "p.json")
    assert flashbench(*command) == 3  # the stand-in's
    assert profiles.read(Path("p.json")) == sample
    assert all(Path(one.report).read_text() == "raw" for one in sample.subjects)
    assert flashbench(*command) == 3
    assert said(machine).count("profile") == 1
    assert flashbench(*command[:-4], "-o", "p.json") == 2
    assert "p.json: already exists" in capsys.readouterr().err
    fetched = Path(os.environ["XDG_STATE_HOME"])
    (kept,) = (path.parent for path in fetched.rglob("results/p.json"))
    take_home(kept / "p.json", Path("there/new.json"), print, Costs(rented_seconds=90.0))
    new = profiles.read(Path("there/new.json"))
    assert new.rented_seconds == 90.0
    assert [one.report for one in new.subjects] == ["new-flashbench.ncu-rep", "new-sdpa.ncu-rep"]
    assert all(Path("there", one.report).read_text() == "raw" for one in new.subjects)


def test_a_gate_that_fails_ends_the_job_before_it_measures(
    machine: Machine, project: Repository, sent: list[str]
) -> None:
    """Exit code 1, and no time is spent."""
    (machine.home / "bad").touch()
    assert flashbench(*words(machine, sent), *COMPARE) == 1
    assert "compare" not in said(machine)
    assert not Path("out.json").exists()


def test_the_working_tree_is_sent_to_a_command_that_measures_it(
    machine: Machine, project: Repository, sent: list[str]
) -> None:
    """Files that changed, are new or were removed."""
    project.write("NOTES", "changed since")
    project.write("new.py", "")
    (project.root / "k.py").unlink()
    command = ["--", "compare", "first", "--run-file", "out.json"]
    there = words(machine, sent, "--no-wait", "--no-preflight")  # it misses k.py
    assert flashbench(*there, *command) == 0
    until(lambda: (job_of(machine) / "ended").exists())
    assert "compare changed since first" in said(machine)
    tree = job_of(machine) / "repo"
    assert sorted(p.name for p in tree.iterdir()) == [".git", "NOTES", "new.py", "pyproject.toml"]
    assert flashbench("cloud", "fetch", job_of(machine).name) == 3


def test_home_killed_in_the_middle_loses_nothing(
    machine: Machine, project: Repository, sent: list[str]
) -> None:
    """The job ends by itself and writes its run file; fetching takes it home."""
    (machine.home / "seconds").write_text("1")
    name = kill_home_while_it_measures(machine, [*words(machine, sent), *COMPARE])
    until(lambda: (job_of(machine) / "ended").exists())
    assert not Path("out.json").exists()
    assert flashbench("cloud", "fetch", name) == 3
    assert len(read(Path("out.json")).launches) == 2


def test_the_limit_of_time_holds_without_home(
    machine: Machine, project: Repository, sent: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A job of an hour is stopped and keeps its measurements; the same command downloads them."""
    (machine.home / "seconds").write_text("3600")
    command = [*words(machine, sent, "--time-limit", "6s", "--no-gate"), *COMPARE]
    kill_home_while_it_measures(machine, command)
    begun = time.monotonic()
    until(lambda: (job_of(machine) / "ended").exists(), 40)
    assert time.monotonic() - begun < 20
    until(lambda: not alive(job_of(machine)), 10)
    assert flashbench(*command) == 4
    assert "the limit of time was reached" in capsys.readouterr().err
    assert len(read(Path("out.json")).launches) == 2


CUT = '{"format":"flashbench-run","ver'


def powered_off(machine: Machine) -> str:
    """What the machine noted when it was shut down."""
    file = machine.home / "off"
    lines = file.read_text().splitlines() if file.exists() else []
    return next((line for line in lines if " now:" in line), "")


def test_shutdown_waits_for_the_results_to_be_fetched(
    machine: Machine, project: Repository, sent: list[str]
) -> None:
    """It ends once all is home; that it will end is arranged before it measures."""
    assert flashbench(*words(machine, sent, "--shutdown"), *COMPARE) == 3
    assert len(read(Path("out.json")).launches) == 2
    until(lambda: powered_off(machine))
    armed, ended = (machine.home / "off").read_text().splitlines()
    assert "sudo -n shutdown -h +7" in armed  # an hour, and what comes around it
    assert ended.endswith("sudo -n shutdown -h now:")  # without a job


def test_shutdown_waits_in_vain_for_a_home_that_is_gone(
    machine: Machine, project: Repository, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine still ends; on again, it has the results."""
    monkeypatch.setattr(job, "FETCH_SECONDS", 1)
    assert flashbench(*words(machine, sent, "--shutdown", "--no-wait"), *COMPARE) == 0
    until(lambda: powered_off(machine))
    name = job_of(machine).name
    assert powered_off(machine).endswith(f"sudo -n shutdown -h now: {name}")
    assert flashbench("cloud", "fetch", name) == 3
    assert len(read(Path("out.json")).launches) == 2


def test_a_machine_that_stays_on_is_named(
    machine: Machine, project: Repository, sent: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the user may not shut it down, the results come home, and the end says so."""
    (machine.home / "stays-on").touch()
    assert flashbench(*words(machine, sent, "--shutdown"), *COMPARE) == 3
    assert "this user may not shut the machine down: it stays on" in capsys.readouterr().err


def test_a_run_file_cut_short_is_set_aside_everywhere(
    machine: Machine, project: Repository, sent: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Here it is not sent; there it does not end the job; what comes home takes its place."""
    Path("out.json").write_text(CUT)
    command = words(machine, sent, "--no-wait", "--no-gate")
    (machine.home / "seconds").write_text("1")
    assert flashbench(*command, *COMPARE) == 0
    assert "out.json.damaged" in capsys.readouterr().err
    assert not Path("out.json").exists()
    until(lambda: "compare" in said(machine))
    found = job_of(machine)
    subprocess.run(["pkill", "-KILL", "-s", (found / "pid").read_text().strip()], check=True)
    until(lambda: not alive(found))
    (found / "results" / "out.json").write_text(CUT)
    assert flashbench(*words(machine, sent, "--no-gate"), *COMPARE) == 3
    assert len(read(Path("out.json")).launches) == 2
    assert Path("out.json.damaged").read_text() == CUT
    (state,) = Path(os.environ["XDG_STATE_HOME"]).rglob("job.json")
    assert (state.parent / "results" / "out.json.damaged").exists()


def test_a_run_file_that_comes_home_damaged_is_no_result(
    machine: Machine, project: Repository, sent: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 4, and what came is kept; the same command tries again."""
    good = (machine.home / "sample.json").read_bytes()
    (machine.home / "sample.json").write_text(CUT)
    assert flashbench(*words(machine, sent), *COMPARE) == 4
    assert "the run file is damaged there" in capsys.readouterr().err
    assert not Path("out.json").exists()
    (machine.home / "sample.json").write_bytes(good)
    assert flashbench(*words(machine, sent, "--dry-run"), *COMPARE) == 0
    assert flashbench(*words(machine, sent), *COMPARE) == 3
    assert "ended without a measurement, and is tried again" in capsys.readouterr().err
    assert read(Path("out.json")).launches
    assert list(Path(os.environ["XDG_STATE_HOME"]).rglob("out.json.damaged"))


def test_sshd_killed_in_the_middle_ends_nothing(
    machine: Machine, project: Repository, sent: list[str]
) -> None:
    """The command waits until the machine answers again, and has all results then."""
    (machine.home / "seconds").write_text("6")
    with started([*words(machine, sent), *COMPARE]) as home:
        until(lambda: "compare" in said(machine))
        machine.kill()
        errors = home.stderr
        assert errors is not None
        try:
            assert any("the job keeps running" in line for line in errors)
        finally:
            machine.start()
        assert any("connected again" in line for line in errors)
        assert home.wait(60) == 3
    assert len(read(Path("out.json")).launches) == 2


def test_a_machine_that_restarts_resumes_the_job(
    machine: Machine, project: Repository, sent: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a process of it left the job is lost, which is said; the same command continues with
    what it measured, in the time that is left."""
    (machine.home / "seconds").write_text("3600")
    command = [*words(machine, sent, "--no-gate"), *COMPARE]
    name = kill_home_while_it_measures(machine, command)
    found = job_of(machine)
    subprocess.run(["pkill", "-KILL", "-s", (found / "pid").read_text().strip()], check=True)
    until(lambda: not alive(found))
    (found / "results" / "out.json").write_bytes((machine.home / "sample.json").read_bytes())
    assert flashbench("cloud", "fetch", name) == 4
    assert "the job died" in capsys.readouterr().err
    (machine.home / "seconds").write_text("0")
    assert flashbench(*command) == 3
    assert said(machine).splitlines() == ["compare second first HEAD"] * 2
    assert len(read(Path("out.json")).launches) == 2


def test_a_connection_that_drops_while_sending_leaves_no_half_job(
    machine: Machine, project: Repository, sent: list[str], tmp_path: Path
) -> None:
    """Nothing runs there; the same command over a better line sends all, and measures."""
    project.write("large", os.urandom(2_000_000).hex())
    project.commit("Large")
    proxy = Path(__file__).with_name("dropping_proxy.py")
    drops = tmp_path / "drops"
    drops.write_text(
        f"Host *\n  ControlPath none\n{machine.config.read_text()}"
        f"  ProxyCommand {sys.executable} {proxy} {machine.port} 500000\n"
    )
    lossy = words(machine, sent)
    lossy[lossy.index(str(machine.config))] = str(drops)
    assert flashbench(*lossy, *COMPARE) == 4
    assert said(machine) == ""
    assert all(path.suffix == ".part" for path in jobs(machine))
    assert flashbench(*words(machine, sent), *COMPARE) == 3


def test_stop_ends_a_job_that_saves_what_it_has(
    machine: Machine, project: Repository, sent: list[str]
) -> None:
    """Its run file is home, and no process of it is left."""
    (machine.home / "seconds").write_text("3600")
    assert flashbench(*words(machine, sent, "--no-wait"), *COMPARE) == 0
    until(lambda: "compare" in said(machine))
    found = job_of(machine)
    assert flashbench("cloud", "stop", found.name) == 0
    assert len(read(Path("out.json")).launches) == 2
    assert not found.exists()


def test_a_run_file_at_home_with_other_results_stays(
    machine: Machine, project: Repository, sent: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """It is sent to be resumed; what comes back replaces it only if it holds all of it."""
    other = make_run(np.random.default_rng(1), cases=make_cases(2), launches=2, samples=3)
    save(other, Path("out.json"))
    kept = Path("out.json").read_bytes()
    assert flashbench(*words(machine, sent), *COMPARE) == 3
    assert Path("out.json").read_bytes() == kept
    assert "has other results, and stays" in capsys.readouterr().err


@pytest.mark.thorough
def test_flashbench_itself_measures_there(
    machine: Machine, project: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The real thing, installed from its wheel: SDPA on one case."""
    command = ["--", "run", "--baseline-only", "--device", "cpu", "--dtype", "fp32"]
    command += ["--causal", "full", "--shape", "1,1,16,8", "--launches", "1", "--samples", "2"]
    sent = ["--wheel", str(wheel.checkout(tmp_path)), "--python", sys.executable]
    assert flashbench(*words(machine, sent), *command, "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)
    (file,) = Path().glob("run-*.json")
    assert read(file).launches[0].complete
