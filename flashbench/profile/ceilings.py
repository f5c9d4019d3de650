"""The ceilings of this machine: measured once in a separate process, and stored in its profile
($FLASHBENCH_MACHINE)."""

import os
import subprocess
import sys
from datetime import UTC, datetime

import msgspec

from flashbench import machine, own_python
from flashbench.errors import NotMeasuredError
from flashbench.measuring.forks import GPU_DRIVERS
from flashbench.process_group import run
from flashbench.runfile import Ceilings
from flashbench.streams import Tell

_BOOTSTRAP = "from flashbench.profile.ceilings import main; main(sys.argv[1], int(sys.argv[2]))"
_SECONDS = 180
_CEILINGS = msgspec.json.Decoder(Ceilings)


def measure(device: str, threads: int | None = None) -> Ceilings:
    """Measure and store them. threads: of torch, on a CPU; None: torch's default.

    Raises NotMeasuredError without such a device, InvalidInputError if they cannot be stored.
    """
    try:
        done = run(own_python.command(_BOOTSTRAP, device, str(threads or 0)), _SECONDS)
    except subprocess.TimeoutExpired:
        raise NotMeasuredError(f"ceilings of {device}: no answer within {_SECONDS} s") from None
    if done.returncode:
        last = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
        raise NotMeasuredError(f"ceilings of {device}: {last[:300]}")
    found = _CEILINGS.decode(done.stdout)
    machine.keep(found, machine.path())
    return found


def measure_all(tell: Tell) -> list[Ceilings]:
    """Measure and store those of the CPU, and of the GPU if a driver is loaded; tell why one
    failed."""
    _warn_if_busy(tell)
    devices = ["cpu", *(["cuda"] if any(path.exists() for path in GPU_DRIVERS) else [])]
    found = []
    for device in devices:
        try:
            found.append(measure(device))
        except NotMeasuredError as error:
            tell(f"warning: {error}")
    return found


def _warn_if_busy(tell: Tell) -> None:
    count = os.cpu_count() or 1
    try:
        average = os.getloadavg()[0]
    except OSError:  # no load average on this system
        return
    if average >= count:
        tell(
            f"warning: this machine is busy (load average {average:.1f} on {count} CPUs): the "
            "CPU's peaks come out too low, and are kept; measure them again when nothing else runs"
        )


def main(device: str, threads: int) -> None:
    """The process that measures: it prints the ceilings as JSON."""
    import torch

    from flashbench.measuring.environment import environment
    from flashbench.profile import cpu_ceilings

    if device == "cuda" and not torch.cuda.is_available():
        sys.exit("torch finds no CUDA device")
    if threads:
        torch.set_num_threads(threads)
    if device == "cuda":
        from flashbench.profile import gpu_ceilings

        measured = gpu_ceilings.measure()
    else:
        measured = cpu_ceilings.measure()
    name, count = machine.identify(environment(device), device)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    ceilings = Ceilings(device=device, name=name, threads=count, measured=now, **measured)
    sys.stdout.write(msgspec.json.encode(ceilings).decode())
