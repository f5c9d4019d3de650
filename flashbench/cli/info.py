"""`flashbench info`: show what is built and loadable here. Does not import torch itself."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from flashbench import source_hash
from flashbench.case import DTYPES
from flashbench.cli.measuring import tell
from flashbench.cli.options import format_option
from flashbench.errors import Exit, NotMeasuredError
from flashbench.extension import BuildInfo, Kernel, build_info, cpu_peaks, kernels, load
from flashbench.measuring.forks import GPU_DRIVERS

if TYPE_CHECKING:
    from flashbench.runfile import Ceilings

CUDA_DTYPES = ("fp16", "bf16")  # the units that csrc/cuda has


@click.command()
@format_option(["text", "json"], name="form")
@click.option(
    "--peak",
    is_flag=True,
    help="Measure the peak rates of the CPU, and of the GPU if there is one (10 s), and keep them "
    "for `profile`.",
)
def command(form: str, peak: bool) -> int:
    """Show what is built and loadable here.

    Backends, dtypes, instruction sets and archs; the commit and source hash of the library;
    registers, shared memory and spills of each CUDA kernel. Exit code 4 if the extension cannot be
    loaded.
    """
    info, resources = build_info(), kernels()
    peaks = cpu_peaks(info.cpu_dtypes) if peak else {}
    ceilings = _ceilings() if peak else []
    if form == "json":
        document = msgspec.structs.asdict(info) | {
            "sources_match": sources_match(info),
            "kernels": [msgspec.structs.asdict(kernel) for kernel in resources],
        }
        if peak:
            document["cpu_peaks"] = peaks
            document["ceilings"] = [msgspec.structs.asdict(one) for one in ceilings]
        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=1).decode())
    else:
        most = [*_peaks(peaks), *(line for one in ceilings for line in _most(one))]
        click.echo("\n".join([*describe(info), *most, *_table(resources)]))
    return Exit.PASS


def sources_match(info: BuildInfo) -> bool | None:
    """Whether the surrounding checkout has the library's sources; None without a checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "csrc").is_dir():
        return None
    return source_hash.of_tree(root) == info.source_hash


def describe(info: BuildInfo) -> list[str]:
    match = sources_match(info)
    verdict = {
        True: "the same as this checkout's",
        False: "NOT this checkout's: build again with `pip install -e .`",
        None: "no checkout here to compare with",
    }[match]
    e4m3 = ["e4m3"] if load().has_cuda_e4m3() else []
    cuda = f"{', '.join([*info.cuda_dtypes, *e4m3])}; archs {', '.join(info.cuda_archs)}"
    rows = {
        "library": info.path,
        "commit": (info.commit or "unknown") + (" with changes" if info.dirty else ""),
        "source hash": f"{info.source_hash[:16]} ({verdict})",
        "compilers": "; ".join(filter(None, [info.compiler, info.cuda_compiler])),
        "cpu": f"{', '.join(info.cpu_dtypes) or 'no dtypes'}; instruction sets "
        f"{', '.join(info.cpu_isas)}; in use: {info.selected_isa}",
        "cuda": cuda if info.cuda_dtypes else "not built (no nvcc, or FLASHBENCH_CUDA=OFF)",
    }
    left_out = [f"{name} (cpu)" for name in DTYPES if name not in info.cpu_dtypes]
    if info.cuda_dtypes:
        left_out += [f"{name} (cuda)" for name in CUDA_DTYPES if name not in info.cuda_dtypes]
    if left_out:
        rows["left out"] = ", ".join(left_out)
    return [f"{name:<12} {value}" for name, value in rows.items()]


def _peaks(peaks: dict[str, dict[int, float]]) -> list[str]:
    lines = []
    for dtype, by_threads in peaks.items():
        rates = (f"{rate / 1e9:.1f} on {count} threads" for count, rate in by_threads.items())
        lines.append(f"{'peak ' + dtype:<12} {', '.join(rates)} (GFLOP/s)")
    return lines


def _ceilings() -> "list[Ceilings]":
    """Measure peak rates of the CPU, and of the GPU if a driver is loaded; report failures on
    stderr."""
    from flashbench.profile import ceilings

    _warn_if_busy()
    devices = ["cpu", *(["cuda"] if any(path.exists() for path in GPU_DRIVERS) else [])]
    found = []
    for device in devices:
        try:
            found.append(ceilings.measure(device))
        except NotMeasuredError as error:
            tell(f"warning: {error}")
    return found


def _warn_if_busy() -> None:
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


def _most(one: "Ceilings") -> list[str]:
    """The peak rates of a device, one line per kind of work."""
    rates = ", ".join(f"{name} {rate / 1e12:.4g}" for name, rate in one.flops.items())
    copies = f"{one.bytes_per_second / 1e9:.4g}"
    if one.cached_bytes_per_second:
        copies += f", in L2 {one.cached_bytes_per_second / 1e9:.4g}"
    launches = ", ".join(
        f"{metric} {seconds * 1e6:.3g}" for metric, seconds in one.launch_seconds.items()
    )
    rows = {
        "product": f"{rates} (TFLOP/s, {one.name})",
        "copy": f"{copies} (GB/s read and written)",
        "exp": f"{one.exponentials / 1e12:.4g} (T/s)" if one.exponentials else "",
        "no work": f"{launches} (us a call)",
    }
    return [f"{one.device + ' ' + name:<12} {text}" for name, text in rows.items() if text]


def _table(resources: list[Kernel]) -> list[str]:
    """The table of kernels. static B: shared memory per block, without the dynamic part."""
    if not resources:
        return []
    lines = [
        "",
        f"{'arch':<5} {'registers':>9} {'static B':>9} {'spill B':>8} {'stack B':>8}  kernel",
    ]
    for k in resources:
        # Dynamic shared memory is requested at launch; ptxas only knows the static part.
        spills = k.spill_store_bytes + k.spill_load_bytes
        lines.append(
            f"{k.arch:<5} {k.registers:>9} {k.static_shared_bytes:>9} {spills:>8} "
            f"{k.stack_bytes:>8}  {_short(k.name)}"
        )
    return lines


def _short(name: str) -> str:
    """A demangled kernel without its return type, namespaces and arguments."""
    plain = re.sub(r"\bflashbench::(\w+::)*", "", name.removeprefix("void ")).rsplit("(", 1)[0]
    return re.sub(r"\((?:int|bool)\)", "", plain)  # cu++filt spells out the types of constants
