"""Machine profile: the noise and the peak rates that were measured on a machine.

From the noise (`flashbench aa`) `run` and `compare` predict, before they start, what they can
detect, and `compare` takes its default tolerance; from the peak rates (`info --peak`) `profile`
computes floors.
"""

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from flashbench import locks
from flashbench.damaged_files import UNREADABLE, damage
from flashbench.errors import InvalidInputError
from flashbench.files import write_file
from flashbench.inputs import open_input
from flashbench.runfile import Ceilings, Environment

FORMAT = "flashbench-machine"
VERSION = 1
_MAX_BYTES = 10**7


class Noise(msgspec.Struct, kw_only=True, frozen=True):
    """One device: false alarms in `aa`, and the change found with 80 % power by 1, 2, ... launches.

    detectable, detectable_worst: that change, as the median over cases and the worst case; None if
    no change is found reliably. attainable: by launches, the smallest tolerance at which every
    case of an unchanged build is SAME, each with 80 % power; None if none is; empty from an older
    version.
    """

    device: str  # "cpu" or "cuda"
    name: str  # the CPU's or the GPU's
    threads: int
    metric: str
    measured: str  # ISO 8601
    cases: int
    alarms: int
    compared: int  # cases times comparisons
    detectable: list[float | None]
    detectable_worst: list[float | None]
    attainable: list[float | None] = []

    @property
    def key(self) -> tuple[Any, ...]:
        return self.device, self.name, self.threads, self.metric


class Profile(msgspec.Struct, kw_only=True):
    """The document."""

    format: str = FORMAT
    version: int = VERSION
    noise: list[Noise] = msgspec.field(default_factory=list)
    ceilings: list[Ceilings] = msgspec.field(default_factory=list)


_PROFILE = msgspec.json.Decoder(Profile)


def path() -> Path:
    """$FLASHBENCH_MACHINE, or machine.json in the user's configuration directory."""
    if chosen := os.environ.get("FLASHBENCH_MACHINE"):
        return Path(chosen)
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "flashbench" / "machine.json"


def read(file: Path) -> Profile:
    """The profile; empty if there is no file. Raises InvalidInputError."""
    try:
        with open_input(file) as stream:
            profile = _PROFILE.decode(stream.read(_MAX_BYTES))
    except FileNotFoundError:
        return Profile()
    except (OSError, *UNREADABLE) as error:
        raise InvalidInputError(
            f"{file}: not a machine profile ({damage(error)}); delete it, or measure it again with "
            "`flashbench aa --save`"
        ) from None
    if (profile.format, profile.version) != (FORMAT, VERSION):
        raise InvalidInputError(
            f"{file}: not a machine profile of this version; measure it again with "
            "`flashbench aa --save`"
        )
    return profile


def keep(learned: Noise | Ceilings, file: Path) -> None:
    """Store an entry in the profile, replacing the one for this device."""
    try:
        with locks.exclusive(file.with_name(f".{file.name}.lock")):
            profile = read(file)
            if isinstance(learned, Noise):
                others = [known for known in profile.noise if known.key != learned.key]
                profile.noise = [*others, learned]
            else:
                kept = [known for known in profile.ceilings if known.key != learned.key]
                profile.ceilings = [*kept, learned]
            write_file(file, msgspec.json.format(msgspec.json.encode(profile), indent=1) + b"\n")
    except OSError as error:
        raise InvalidInputError(f"{file}: cannot be written: {error.strerror}") from None


def identify(environment: Environment, device: str) -> tuple[str, int]:
    """The device's name and thread count, the key of its profile."""
    if device == "cuda":
        return environment.gpu, 0
    return environment.cpu, environment.threads


def ceilings_of(environment: Environment, device: str) -> Ceilings | None:
    """This device's ceilings, if `info --peak` or `profile` has measured them. Raises
    InvalidInputError."""
    key = (device, *identify(environment, device))
    return next((one for one in read(path()).ceilings if one.key == key), None)


def name_of(device: str) -> str:
    """The CPU's or GPU's name as `Environment` has it, without asking torch; "" where unknown.

    device: "cpu" or "cuda".
    """
    return cpu_name() if device == "cpu" else ask_nvidia_smi("name")[0]


def device_of(wanted: str) -> str:
    """ "cpu" or "cuda", as a worker would choose."""
    if wanted == "auto":
        return "cuda" if name_of("cuda") else "cpu"
    return wanted


def cpu_name() -> str:
    """Model name of the first processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def ask_nvidia_smi(*fields: str) -> list[str]:
    """nvidia-smi's values of these fields, for CUDA's first GPU; empty strings on failure."""
    query = [f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0] or "0"
    try:
        done = subprocess.run(
            ["nvidia-smi", "-i", visible, *query],
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return [""] * len(fields)
    values = [value.strip() for value in done.stdout.partition("\n")[0].split(",")]
    return values if len(values) == len(fields) else [""] * len(fields)


def attainable_tolerance(
    profile: Profile,
    device: str,
    metric: str,
    threads: int | None,
    launches: int,
    wanted: float,
    why: str = "",
) -> tuple[float, str]:
    """The tolerance at which this machine can call an unchanged build SAME, at least `wanted`, and
    one line on it; `wanted` and "" where that is attained or the machine unknown.

    threads None: as in the newest entry, since only torch knows how many it takes. why: there are
    no more launches, in words.
    """
    name = name_of(device)
    for noise in reversed(profile.noise):
        if (noise.device, noise.name, noise.metric) != (device, name, metric):
            continue
        if not noise.attainable or threads not in (None, noise.threads):
            continue
        if launches > len(noise.attainable):
            launches, why = len(noise.attainable), ""
        attained = noise.attainable[launches - 1]
        if attained is not None and attained <= wanted:
            break
        line = f"according to its profile of {noise.measured[:10]}, this machine cannot call an "
        line += f"unchanged build SAME at {100 * wanted:g} % within {launches} launches{why} "
        line += f"({_cases(noise)}, 80 % power each)"
        if attained is None:
            some = next(((n, one) for n, one in enumerate(noise.attainable, 1) if one), None)
            more = f"; {some[0]} launches reach {100 * some[1]:g} %" if some else ""
            return wanted, f"{line}, nor at a larger tolerance{more}"
        return attained, (
            f"tolerance {100 * attained:g} %: {line}; --tolerance {100 * wanted:g}% insists"
        )
    return wanted, ""


def _cases(noise: Noise) -> str:
    return f"{noise.cases} case{'s' * (noise.cases != 1)}"


def outlook(
    profile: Profile,
    environment: Environment,
    device: str,
    metric: str,
    launches: int,
    wanted: float,
) -> str | None:
    """One line on the change that `launches` launches detect here; None if the machine is unknown.

    wanted: the change that matters (0.01 is 1 %).
    """
    name, threads = identify(environment, device)
    for noise in profile.noise:
        if noise.key != (device, name, threads, metric) or not noise.detectable:
            continue
        launches = min(launches, len(noise.detectable))
        seen = noise.detectable[launches - 1]
        what = "no change reliably" if seen is None else f"changes of {100 * seen:.2g} % or more"
        line = f"according to its profile of {noise.measured[:10]}, this machine detects {what}"
        line += f" with {launches} launches (half of its cases, 80 % power, {_cases(noise)})"
        if seen is not None and seen <= 2 * wanted:
            return line
        enough = [n for n, change in enumerate(noise.detectable, 1) if (change or 9) <= 2 * wanted]
        most = len(noise.detectable)
        better = f"{enough[0]} detect" if enough else f"not even {most} detect"
        return f"{line}; {better} {200 * wanted:g} %"
    return None
