"""What is built and loadable here, as `flashbench info` prints it."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from flashbench import source_hash
from flashbench.case import DTYPES
from flashbench.extension import BuildInfo, Kernel, load
from flashbench.runfile import Ceilings

CUDA_DTYPES = ("fp16", "bf16")  # the units that csrc/cuda has

Peaks = Mapping[str, Mapping[int, float]]  # FLOP/s by dtype and threads


def text(
    info: BuildInfo, resources: Sequence[Kernel], peaks: Peaks, ceilings: Sequence[Ceilings]
) -> str:
    """Lines of names and values, then the table of kernels."""
    most = [*_peaks(peaks), *(line for one in ceilings for line in _most(one))]
    return "\n".join([*_described(info), *most, *_table(resources)])


def data(info: BuildInfo, resources: Sequence[Kernel]) -> dict[str, Any]:
    """The same for programs, without what is measured."""
    return msgspec.structs.asdict(info) | {
        "sources_match": _sources_match(info),
        "kernels": [msgspec.structs.asdict(kernel) for kernel in resources],
    }


def _sources_match(info: BuildInfo) -> bool | None:
    """Whether the surrounding checkout has the library's sources; None without a checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "csrc").is_dir():
        return None
    return source_hash.of_tree(root) == info.source_hash


def _described(info: BuildInfo) -> list[str]:
    match = _sources_match(info)
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


def _peaks(peaks: Peaks) -> list[str]:
    lines = []
    for dtype, by_threads in peaks.items():
        rates = (f"{rate / 1e9:.1f} on {count} threads" for count, rate in by_threads.items())
        lines.append(f"{'peak ' + dtype:<12} {', '.join(rates)} (GFLOP/s)")
    return lines


def _most(one: Ceilings) -> list[str]:
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


def _table(resources: Sequence[Kernel]) -> list[str]:
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
