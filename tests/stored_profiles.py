"""What ncu said of kernels on an H200, for tests to replay (experiments/profile_fixtures.py), and
ceilings, so that no test measures them."""

from pathlib import Path

from flashbench import machine
from flashbench.profile import counters
from flashbench.profile.ncu_csv import KernelRow, parse

STORED = Path(__file__).parent / "profile" / "ncu"


def stored(name: str) -> list[KernelRow]:
    """The kernels of a stored file, as parsed."""
    path = STORED / f"{name}.csv"
    return parse(path.read_text(), path.name)


def counted(name: str) -> list[dict[str, float]]:
    """Counters of the kernels of a stored file."""
    return [counters.read(row.values) for row in stored(name)]


def ceilings_of_this_cpu(file: Path) -> None:
    """Keep made-up ones in a machine profile."""
    from flashbench.measuring.environment import environment

    name, threads = machine.identify(environment("cpu"), "cpu")
    ceilings = machine.Ceilings(
        device="cpu",
        name=name,
        threads=threads,
        measured="2026-11-22T15:00:00+00:00",
        flops={"fp32": 1e11},
        bytes_per_second=2e10,
        launch_seconds={"wall": 1e-9},
    )
    machine.keep(ceilings, file)
