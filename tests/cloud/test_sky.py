"""`flashbench cloud run --gpu`: the tasks for SkyPilot, its commands, and the end of a machine."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from cloud.commands import COMPARE, START, calls, flashbench
from cloud.machine import Machine, needs_sshd
from revisions.repository import Repository

from flashbench.cloud import sky
from flashbench.runfile import read

HERE = Path(__file__).parent
# `make cloud` fills it: SkyPilot's dependencies are not ours.
SKYPILOT = HERE.parents[1] / ".venv-cloud" / "bin" / "python"


def test_the_task_is_as_recorded() -> None:
    """What SkyPilot gets: UPDATE_GOLDEN=1 writes it anew; then run the test of its own parser."""
    machine = sky.Rental(
        "flashbench-0123456789",
        "H100",
        7200,
        spot=True,
        disk=200,
        infra="aws/us-east-1",
        image="docker:example/image",
        bucket="s3://mine/runs",
        most_hourly=2.5,
    )
    texts = [sky.to_yaml(task) for task in (machine.armed(), machine.task(Path("/payload")))]
    golden = HERE / "task.golden.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text("---\n".join(texts))
    assert golden.read_text() == "---\n".join(texts)


def test_what_the_limits_leave_for_the_job() -> None:
    """The job ends early enough for idle minutes, their check, and saving; shutdown comes last."""
    machine = sky.Rental("flashbench-x", "L4", 3600)
    limits = machine.limits
    assert limits.life + 60 * sky.IDLE_MINUTES + 60 + limits.grace <= machine.life
    assert limits.seconds + sky.BOOT_SECONDS <= limits.life
    assert "shutdown -h +55 " in machine.armed()["run"]


@pytest.mark.parametrize(
    ("url", "store", "inside"),
    [
        ("s3://mine", "s3://mine", ""),
        ("gs://mine/my runs/é", "gs://mine", "my runs/é"),
        ("https://me.blob.core.windows.net/runs/a", "https://me.blob.core.windows.net/runs", "a"),
        ("cos://us-east/mine/a/b", "cos://us-east/mine", "a/b"),
    ],
)
def test_a_bucket_and_the_folder_in_it(url: str, store: str, inside: str) -> None:
    """By the scheme: some have a region or an account before the bucket."""
    assert sky.split_bucket(url) == (store, inside)


@pytest.mark.skipif(not SKYPILOT.exists(), reason="no SkyPilot here (make cloud)")
def test_skypilot_reads_the_tasks_as_they_are_meant(tmp_path: Path) -> None:
    """Its parser finds the limits, its optimizer the GPUs, its dry run passes, and a machine that
    is dearer than the limit is refused."""
    payload = tmp_path / "payload"
    payload.mkdir()
    tasks = {}
    for gpu in sky.GPUS:
        tasks[gpu] = sky.Rental("flashbench-x", gpu, 3600).task(payload)
    spot = sky.Rental("flashbench-x", "H100", 3600, spot=True, bucket="s3://mine/runs", disk=50)
    tasks |= {"armed": spot.armed(), "spot": spot.task(payload)}
    tasks["kept"] = sky.Rental("flashbench-x", "L4", 3600, down=False).task(payload)
    tasks["dear"] = sky.Rental("flashbench-x", "H100", 3600, most_hourly=3.0).task(payload)
    files = []
    for name, task in tasks.items():
        files.append(tmp_path / f"{name}.yaml")
        files[-1].write_text(sky.to_yaml(task))
    rsync = tmp_path / "bin" / "rsync"  # SkyPilot asks its version even for a dry run
    rsync.parent.mkdir()
    rsync.write_text('#!/bin/sh\n[ "$*" = --version ]\n')
    rsync.chmod(0o755)
    done = subprocess.run(
        [str(SKYPILOT), str(HERE / "sky_oracle.py"), *map(str, files)],
        capture_output=True,
        text=True,
        env=os.environ
        | {"HOME": str(tmp_path), "PATH": f"{os.environ['PATH']}{os.pathsep}{rsync.parent}"},
    )
    lines = [line[line.index("{") :] for line in done.stdout.splitlines() if '{"name"' in line]
    assert len(lines) == len(files), (done.stdout + done.stderr)[-2000:]
    found = dict(zip(tasks, map(json.loads, lines), strict=True))
    for gpu in sky.GPUS:
        assert found[gpu]["accelerators"] == {gpu: 1}
        assert found[gpu]["chosen"].startswith("gpu_1x_")
        assert found[gpu]["dry"]
        assert found[gpu]["autostop"] == [True, sky.IDLE_MINUTES, True, "jobs"]
        assert found[gpu]["workdir"] == str(payload)
    assert found["spot"]["hourly"] == 1.5
    assert found["spot"]["disk"] == 50
    assert found["spot"]["autostop"] == [True, sky.IDLE_MINUTES, True, "jobs"]
    assert found["spot"]["mounts"] == {sky.MOUNT: ["s3://mine", "MOUNT"]}
    assert found["armed"]["workdir"] is None
    assert found["kept"]["autostop"] == [True, sky.IDLE_MINUTES, False, "jobs"]
    assert found["dear"]["refused"]
    assert all(one["setup"] is None for one in found.values())


def test_a_dry_run_shows_everything_and_starts_nothing(
    fake: Path, project: Repository, sent: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Tasks, parameters, limits, price and commands; nothing is kept."""
    options = ["--gpu", "H100", "--time-limit", "2h", "--money-limit", "5usd", "--dry-run"]
    assert flashbench("cloud", "run", *options, *sent, *COMPARE) == 0
    shown = capsys.readouterr()
    for part in (
        "max_hourly_cost: 2.5",
        "idle_minutes: 5",
        "seconds=",
        "sources.bundle",
        "5.00 USD",
    ):
        assert part in shown.out
    assert "$4.00" in shown.err
    assert "plan for H100: 4 cases x 4 candidates x 40 launches" in shown.err
    assert "minutes are paid" in shown.err
    assert calls(fake) == START[:1]
    assert not list(Path(os.environ["XDG_STATE_HOME"]).rglob("flashbench-*"))


def test_the_price_of_the_settings_is_shown(
    fake: Path, project: Repository, sent: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The limit of the machine's whole life, where there is none in money."""
    text = (project.root / "pyproject.toml").read_text()
    price = 'L4 = { hourly = "1.50eur", date = "2026-01-31", source = "an example" }'
    project.write("pyproject.toml", f"{text}[tool.flashbench.prices]\n{price}\n")
    dry = ["cloud", "run", "--gpu", "L4", "--time-limit", "2h", "--dry-run"]
    assert flashbench(*dry, *sent, *COMPARE) == 0
    assert "its whole life costs 3.00 eur" in capsys.readouterr().out


def test_settings_say_what_to_rent(
    fake: Path, project: Repository, sent: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """[tool.flashbench.cloud]; they do not stand in the way of a machine that is named."""
    text = (project.root / "pyproject.toml").read_text()
    project.write("pyproject.toml", f'{text}[tool.flashbench.cloud]\ngpu = "H200"\nspot = true\n')
    assert flashbench("cloud", "run", "--dry-run", *sent, *COMPARE) == 0
    assert 'accelerators: "H200:1"' in capsys.readouterr().out
    assert flashbench("cloud", "run", "--dry-run", "--ssh", "there", *sent, *COMPARE) == 0
    assert "-- there 'sh -c" in capsys.readouterr().out


def test_nothing_is_rented_without_a_yes(
    fake: Path, project: Repository, sent: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a terminal to ask."""
    assert flashbench("cloud", "run", "--gpu", "L4", *sent, *COMPARE) == 2
    assert "--yes" in capsys.readouterr().err
    assert calls(fake) == START[:1]


@needs_sshd
def test_a_machine_is_armed_first_used_and_removed(
    fake: Path,
    rented: Machine,
    project: Repository,
    sent: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Autostop is set before anything is sent; once the results are home, the machine goes. No
    credential of the user's is shown, kept or sent."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
    options = ["--gpu", "L4", "--yes", *sent]
    begun = time.time()
    assert flashbench("cloud", "run", *options, *COMPARE) == 3
    assert calls(fake) == [*START, "down --yes"]
    run = read(Path("out.json"))
    assert len(run.launches) == 2
    # From before the machine is armed until after its job has ended.
    armed, ended = ((rented.home / name).stat().st_mtime for name in ("off", "sky_workdir/ended"))
    assert 0 < ended - armed < run.costs.rented_seconds < time.time() - begun
    assert "sudo -n shutdown -h +55" in (rented.home / "off").read_text()
    said = "".join(capfd.readouterr())
    assert "; rented machine, from start to end " in said
    assert "hush" not in said
    for place in (Path(os.environ["XDG_STATE_HOME"]), rented.home):
        files = [path for path in place.rglob("*") if path.is_file()]
        assert not any(b"hush-hush" in path.read_bytes() for path in files)


@needs_sshd
def test_a_machine_that_only_autostop_ends_is_named(
    fake: Path,
    rented: Machine,
    project: Repository,
    sent: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As containers are, and users without sudo: in the machine's log, and at home."""
    (rented.home / "stays-on").touch()
    assert flashbench("cloud", "run", "--gpu", "L4", "--yes", *sent, *COMPARE) == 3
    stays = "this user may not shut the machine down: only autostop of SkyPilot ends it"
    assert stays in capsys.readouterr().err
    assert stays in (rented.home / "log").read_text()


@pytest.mark.parametrize("task", ["armed.yaml", "task.yaml"])
def test_a_machine_that_fails_to_start_is_removed(
    fake: Path, project: Repository, sent: list[str], task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """SkyPilot would keep it for its owner to look at. Afterwards the command starts anew."""
    (fake / "fail").write_text(f"{task} no capacity")
    if task == "task.yaml":
        (fake / "fail").write_text("--detach-run no capacity")
    assert flashbench("cloud", "run", "--gpu", "L4", "--yes", *sent, *COMPARE) == 4
    assert calls(fake)[-1] == "down --yes"
    assert "no capacity" in capsys.readouterr().err
    assert not list(Path(os.environ["XDG_STATE_HOME"]).rglob("job.json"))


def test_without_skypilot_it_says_what_to_install(
    project: Repository,
    sent: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And without a cloud, what to ask."""
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert flashbench("cloud", "run", "--gpu", "L4", *sent, *COMPARE) == 2
    assert "pip install 'flashbench[cloud]'" in capsys.readouterr().err


def test_without_a_cloud_it_says_what_to_ask(
    fake: Path, project: Repository, sent: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """In SkyPilot's own words of an error, and ours."""
    (fake / "fail").write_text("--dryrun sky.exceptions.NoCloudAccessError: not set up.")
    assert flashbench("cloud", "run", "--gpu", "L4", "--yes", *sent, *COMPARE) == 4
    assert "SkyPilot has no cloud enabled; see: sky check" in capsys.readouterr().err


def test_errors_of_preflight_stop_before_anything_is_rented(
    fake: Path, project: Repository, sent: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What would fail on a machine that is paid for."""
    project.write(
        "pyproject.toml", '[tool.flashbench.project]\ncallable = "k:f"\nbuild = ["gone"]\n'
    )
    assert flashbench("cloud", "run", "--gpu", "L4", "--yes", *sent, *COMPARE) == 4
    assert "--no-preflight continues" in capsys.readouterr().err
    assert calls(fake) == []
