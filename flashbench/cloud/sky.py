"""A machine rented by SkyPilot: its tasks, and the few commands of `sky` that we use.

`sky` runs as a program with the user's own configuration; only it handles cloud credentials.
Everything that limits a machine's cost is in the task and on the machine:

- `autostop` is set once the machine is up, before anything is sent to it (`armed`): SkyPilot sets
  it after setup and file mounts, and a machine that fails there would stay up;
- autostop waits only for jobs, so a hanging ssh session keeps no machine alive;
- the job runs under `timeout`; there is no `setup`, so everything slow is part of the job;
- `shutdown` is scheduled for the end of the machine's life, in case SkyPilot's daemon on it died;
- `max_hourly_cost` keeps SkyPilot from renting a machine whose life would cost more than the limit.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from flashbench.cloud.job import Limits
from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.render.escape import printable

GPUS = ("L4", "A100", "A100-80GB", "H100", "H200")
IDLE_MINUTES = 5
# Paid time outside the job: the machine's start; the idle minutes, polled once a minute; and the
# time for a job to save.
BOOT_SECONDS, AROUND_SECONDS = 300, IDLE_MINUTES * 60 + 60 + 60
SHORTEST_LIFE = 1200
MOUNT = "/flashbench-bucket"
# Schemes of SkyPilot's buckets, and how many names after them say which: Azure's have the account
# first, IBM's the region.
_BUCKETS = {"s3": 1, "gs": 1, "r2": 1, "oci": 1, "nebius": 1, "cw": 1, "https": 2, "cos": 2}
_NAME = re.compile(r"[\w.+=@ -]*[\w+=@-]")  # not ".", "..", nor an empty one
_STAYS = "this user may not shut the machine down: only autostop of SkyPilot ends it"
_NO_CLOUD = ("NoCloudAccessError", "No cloud access", "No enabled cloud", "No cloud is enabled")


@dataclass(frozen=True)
class Rental:
    """What to rent. life: its maximum in seconds; most_hourly: its maximum price in dollars,
    without disk and traffic. bucket: a URL for the results. down: remove the machine at the end
    instead of stopping it, which keeps its disk."""

    name: str
    gpu: str
    life: int
    spot: bool = False
    disk: int = 100
    infra: str = ""
    image: str = ""
    bucket: str = ""
    most_hourly: float | None = None
    down: bool = True

    @property
    def limits(self) -> Limits:
        """The limits of the job on it."""
        seconds = self.life - BOOT_SECONDS - AROUND_SECONDS
        return Limits(seconds, self.life - AROUND_SECONDS, bucket=self.mounted)

    def resources(self) -> dict[str, Any]:
        """The task's resources."""
        found: dict[str, Any] = {"accelerators": f"{self.gpu}:1", "disk_size": self.disk}
        if self.infra:
            found["infra"] = self.infra
        if self.image:
            found["image_id"] = self.image
        if self.spot:
            found["use_spot"] = True
        if self.most_hourly is not None:
            found["max_hourly_cost"] = self.most_hourly
        found["autostop"] = {"idle_minutes": IDLE_MINUTES, "down": self.down, "wait_for": "jobs"}
        return found

    def armed(self) -> dict[str, Any]:
        """The first task: sends nothing, so autostop is set as soon as the machine is up."""
        minutes = (self.life - BOOT_SECONDS) // 60
        born = f"date -d '-{BOOT_SECONDS} sec' +%s >~/.flashbench-born"
        return {
            "name": self.name,
            "resources": self.resources(),
            "run": f"[ -e ~/.flashbench-born ] || {born}\n"
            f"sudo -n shutdown -h +{minutes} || echo '{_STAYS}' | tee ~/.flashbench-stays\n",
        }

    def task(self, payload: Path) -> dict[str, Any]:
        """The second task: the job. payload: the folder to send."""
        found: dict[str, Any] = {
            "name": self.name,
            "resources": self.resources(),
            "workdir": str(payload),
        }
        if self.bucket:
            store, _ = split_bucket(self.bucket)
            found["file_mounts"] = {MOUNT: {"source": store, "mode": "MOUNT"}}
        return found | {"run": "bash ./job.sh\n"}

    @property
    def mounted(self) -> str:
        """The results' folder on the machine; "" without a bucket."""
        if not self.bucket:
            return ""
        return "/".join(filter(None, (MOUNT, split_bucket(self.bucket)[1], self.name)))


def split_bucket(url: str) -> tuple[str, str]:
    """The URL of a bucket and the folder in it. InvalidInputError for one that SkyPilot would
    refuse once a machine is up."""
    scheme, _, rest = url.partition("://")
    names, count = rest.strip("/").split("/"), _BUCKETS.get(scheme, 0)
    if not count or len(names) < count or not all(map(_NAME.fullmatch, names)):
        raise InvalidInputError(
            f"--bucket {url!r} names no bucket; write one as s3://mine/runs, with one of "
            f"{', '.join(_BUCKETS)}"
        )
    return f"{scheme}://{'/'.join(names[:count])}", "/".join(names[count:])


def to_yaml(task: Mapping[str, Any], indent: str = "") -> str:
    """A task as YAML: mappings, multi-line strings as blocks, everything else as JSON."""
    lines = []
    for key, value in task.items():
        if isinstance(value, Mapping):
            lines.append(f"{indent}{key}:\n{to_yaml(value, indent + '  ')}")
        elif isinstance(value, str) and value.endswith("\n"):
            block = "".join(f"{indent}  {line}\n" for line in value.splitlines())
            lines.append(f"{indent}{key}: |\n{block}")
        else:
            lines.append(f"{indent}{key}: {json.dumps(value)}\n")
    return "".join(lines)


def program() -> str:
    """The path of `sky`, beside this Python or on PATH. InvalidInputError names what to install."""
    beside = Path(sys.executable).with_name("sky")
    found = str(beside) if beside.is_file() else shutil.which("sky")
    if found is None:
        raise InvalidInputError(
            "SkyPilot is not installed: pip install 'flashbench[cloud]' 'skypilot[aws]' (or "
            "another cloud of it), then: sky check"
        )
    return found


def launching(name: str, task: Path) -> list[str]:
    """The arguments that start a machine, or a job on a running one, without waiting for it."""
    return ["launch", "--yes", "--detach-run", "--cluster", name, str(task)]


def launch(name: str, task: Path) -> list[str]:
    """The whole command for these arguments."""
    return [program(), *launching(name, task)]


def dry_run(name: str, task: Path) -> list[str]:
    """The command that shows what would be rented, with its price."""
    return [program(), "launch", "--yes", "--dryrun", "--cluster", name, str(task)]


def start(name: str) -> list[str]:
    """The command that restarts a stopped machine, to be removed when idle."""
    idle = ["--idle-minutes-to-autostop", str(IDLE_MINUTES), "--down"]
    return [program(), "start", "--yes", *idle, name]


def down(name: str) -> list[str]:
    """The command that removes a machine."""
    return [program(), "down", "--yes", name]


def call(command: list[str], *, quiet: bool = False) -> None:
    """Run a `sky` command, with its output on stderr. Raises NotMeasuredError with its error."""
    lines = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=os.environ | {"SKYPILOT_DISABLE_USAGE_COLLECTION": "1"},
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(printable(click.unstyle(line).rstrip()))
            if not quiet:
                print(lines[-1], file=sys.stderr)
    if process.returncode:
        if any(words in line for words in _NO_CLOUD for line in lines):
            raise NotMeasuredError("SkyPilot has no cloud enabled; see: sky check")
        said = (
            [line for line in lines if "Error" in line] or list(filter(None, lines)) or ["nothing"]
        )
        raise NotMeasuredError(f"sky {command[1]} failed: {said[0][:300]}")
