"""A Slurm cluster of one node on loopback: private directories, keys, sockets and ports.

Needs slurmctld, slurmd and munged (Debian: `apt-get install slurm-wlm munge`) and no setup at all.
As root the daemons run as root, else as the user who runs the tests.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "squeue", "scancel", "sinfo")
PLACES = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/usr/local/sbin"])
_START_SECONDS = 60

_CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
CredType=cred/munge
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=1
ReturnToService=2
KillWait=20
MinJobAge=300
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=60 State=UP
"""


def lacking() -> list[str]:
    """The programs that are not installed."""
    return [name for name in PROGRAMS if not shutil.which(name, path=PLACES)]


@contextmanager
def slurm_node(directory: Path) -> Iterator[dict[str, str]]:
    """Start the daemons, wait until the node is idle, give the environment; end them afterwards.

    directory: with a short path, for sockets.
    """
    daemons: list[subprocess.Popen[bytes]] = []
    directory.chmod(0o755)
    for name in ("state", "spool"):
        (directory / name).mkdir()
    configuration = directory / "slurm.conf"
    ports = _free_ports()
    configuration.write_text(
        _CONFIGURATION.format(
            host=socket.gethostname().partition(".")[0],
            user=pwd.getpwuid(os.getuid()).pw_name,
            directory=directory,
            controller_port=ports[0],
            node_port=ports[1],
            cpus=os.cpu_count(),
        )
    )
    environment = os.environ | {"SLURM_CONF": str(configuration), "PATH": PLACES}
    try:
        daemons.append(_munged(directory, environment))
        _wait_for((directory / "munge.socket").exists, "munged", daemons, directory)
        for name in ("slurmctld", "slurmd"):
            daemons.append(_start([name, "-D"], directory / f"{name}.out", environment))
        _wait_for(lambda: _idle(environment), "the node", daemons, directory)
        yield environment
    finally:
        _end_jobs(environment)
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in reversed(daemons):
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        _end_leftovers(directory)


def _munged(directory: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    key = directory / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    paths = {"socket": "munge.socket", "pid-file": "munge.pid", "log-file": "munge.log"}
    flags = [f"--{flag}={directory / name}" for flag, name in paths.items()]
    flags += [f"--key-file={key}", f"--seed-file={directory / 'munge.seed'}", "--num-threads=1"]
    # --force: a directory below a world-writable one, such as /tmp, is not to its liking.
    command = ["munged", "--foreground", "--force", *flags]
    return _start(command, directory / "munged.out", environment)


def _start(command: list[str], log: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    with log.open("wb") as out:
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip


def _wait_for(ready: object, what: str, daemons: list[subprocess.Popen[bytes]], at: Path) -> None:
    assert callable(ready)
    deadline = time.monotonic() + _START_SECONDS
    while not ready():
        dead = [daemon.args for daemon in daemons if daemon.poll() is not None]
        if dead or time.monotonic() > deadline:
            logs = "\n".join(
                f"{log.name}: {log.read_text(errors='replace')[-1500:]}"
                for log in sorted([*at.glob("*.out"), *at.glob("*.log")])
            )
            raise RuntimeError(f"{what} did not come up ({dead} ended)\n{logs}")
        time.sleep(0.1)


def _idle(environment: dict[str, str]) -> bool:
    done = subprocess.run(
        ["sinfo", "--noheader", "--format=%T"], env=environment, capture_output=True, text=True
    )
    return done.stdout.strip() == "idle"


def _end_jobs(environment: dict[str, str]) -> None:
    """Cancel what still runs; the steps' daemons outlive slurmd, so this comes first."""
    user = pwd.getpwuid(os.getuid()).pw_name
    subprocess.run(["scancel", "--signal=KILL", "--user", user], env=environment, timeout=30)
    subprocess.run(["scancel", "--user", user], env=environment, timeout=30)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        queue = ["squeue", "--noheader"]
        done = subprocess.run(queue, env=environment, capture_output=True, text=True, timeout=30)
        if done.returncode or not done.stdout.strip():
            return
        time.sleep(0.2)


def _end_leftovers(directory: Path) -> None:
    """Step daemons of this cluster that are still there: they have its spool directory."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "environ").read_bytes()
            name = (process / "comm").read_text().strip()
        except OSError:
            continue
        if name.startswith("slurmstepd") and str(directory).encode() in arguments:
            os.kill(int(process.name), signal.SIGKILL)


def _free_ports() -> list[int]:
    """Two ports without a listener."""
    with socket.socket() as one, socket.socket() as two:
        for found in (one, two):
            found.bind(("127.0.0.1", 0))
        return [one.getsockname()[1], two.getsockname()[1]]


if __name__ == "__main__":
    with slurm_node(Path(sys.argv[1])) as environment:
        subprocess.run(sys.argv[2:], env=environment, check=True)
