"""Rules that find a kernel's bottleneck from its counters, each with its two numbers and the usual
next steps.

The limits were set with kernels that have one known bottleneck each (experiments/bound_kernels.py).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flashbench.profile.counters import STALLS
from flashbench.profile.rule import BUSY, UNKNOWN, Bottleneck

IDLE_SMS = 75.0  # percent of the time that an SM has work, below which the grid is the bottleneck
CONFLICTS = 30.0  # percent of shared memory's cycles that conflicts add
ISSUE = 80.0  # percent of cycles in which an instruction is issued
STALL = 30.0  # percent of a warp's time that one reason takes

_Counters = Mapping[str, float]


def of_kernel(counters: _Counters) -> Bottleneck:
    """The first matching rule: idle SMs, the busiest unit, issue slots, stall reasons."""
    for rule in (_idle_sms, _busiest_unit, _uncounted, _issue, _stall):
        if found := rule(counters):
            return found
    top = sorted((unit for unit in _UNITS if unit in counters), key=lambda unit: -counters[unit])
    return Bottleneck(
        UNKNOWN, tuple(f"{_UNITS[unit].name} {counters[unit]:.0f} % of peak" for unit in top[:2])
    )


def busy_share(counters: _Counters) -> float | None:
    """Percent of the kernel's time that an SM has work."""
    active, elapsed = counters.get("active_cycles"), counters.get("elapsed_cycles")
    return 100 * active / elapsed if active is not None and elapsed else None


def stalls(counters: _Counters) -> list[tuple[str, float]]:
    """Stall reasons with their percentage of warps' time, largest first."""
    known = {name: counters.get(f"stall_{name}", 0.0) for name in STALLS}
    total = counters.get("warp_latency") or sum(known.values())
    if not total:
        return []
    return sorted(((n, 100 * v / total) for n, v in known.items()), key=lambda pair: -pair[1])


def limiter(counters: _Counters) -> str:
    """The resource that limits the blocks per SM; "" if unknown."""
    limits = {
        "registers": counters.get("limit_registers"),
        "shared memory": counters.get("limit_shared"),
        "warps": counters.get("limit_warps"),
        "blocks": counters.get("limit_blocks"),
    }
    known = {name: value for name, value in limits.items() if value is not None}
    if not known:
        return ""
    least = min(known.values())
    return ", ".join(name for name, value in known.items() if value == least)


def _idle_sms(counters: _Counters) -> Bottleneck | None:
    share, waves = busy_share(counters), counters.get("waves")
    if share is None or waves is None or share >= IDLE_SMS:
        return None
    evidence = (f"an SM has work {share:.0f} % of the time", f"{waves:.3g} waves of blocks")
    if waves < 1:
        steps = ("divide the work into more blocks (split the keys)", "smaller tiles")
        return Bottleneck("too few blocks", evidence, steps)
    return Bottleneck(
        "tail",
        evidence,
        ("divide the last wave among all SMs (stream-K)", "persistent blocks", "another tile size"),
    )


@dataclass(frozen=True, slots=True)
class _Unit:
    name: str
    beside: Callable[[_Counters], str]
    next: tuple[str, ...]


def _hits(counters: _Counters) -> str:
    hits = counters.get("l2_hits")
    return "L2 hits not counted" if hits is None else f"L2 hits {hits:.0f} %"


def _memory_bytes(counters: _Counters) -> str:
    read, written = counters.get("dram_read"), counters.get("dram_write")
    if read is None or written is None:
        return "bytes moved not counted"
    return f"{(read + written) / 1e6:.4g} MB moved"


def _issued(counters: _Counters) -> str:
    issue = counters.get("issue")
    if issue is None:
        return "issued instructions not counted"
    return f"instructions issued in {issue:.0f} % of cycles"


def _conflict_share(counters: _Counters) -> float:
    cycles = counters.get("shared_cycles", 0.0)
    return 100 * counters.get("conflicts", 0.0) / cycles if cycles else 0.0


_UNITS = {
    "dram": _Unit(
        "memory",
        _memory_bytes,
        (
            "move less: compare the bytes moved with the bytes needed",
            "reuse from L2: order blocks so that neighbours in time share data",
            "a smaller dtype",
        ),
    ),
    "l2": _Unit(
        "L2 cache",
        _hits,
        (
            "larger tiles, so that each byte is fetched once by more rows",
            "share loads in a cluster (TMA multicast)",
            "coalesce: whole 128-byte lines a warp",
        ),
    ),
    "tensor": _Unit(
        "tensor cores",
        _issued,
        (
            "fewer operations: skip masked tiles, no padding",
            "a dtype with a higher rate",
            "near its ceiling: compare with the arithmetic floor before more work",
        ),
    ),
    "xu": _Unit(
        "exponentials",
        _issued,
        (
            "compute a share of them by a polynomial on the FMA pipe",
            "overlap them with matrix products",
            "two at once in half precision (ex2.f16x2)",
        ),
    ),
    "fma": _Unit(
        "FMA pipe",
        _issued,
        ("move products to tensor cores", "packed half-precision arithmetic", "hoist what repeats"),
    ),
    "alu": _Unit(
        "integer and logic pipe",
        _issued,
        ("hoist index arithmetic out of loops", "fewer conversions and comparisons an element"),
    ),
    "shared_share": _Unit(
        "shared memory",
        lambda counters: f"conflicts add {_conflict_share(counters):.0f} % of its cycles",
        (
            "keep operands in registers",
            "wider loads (ldmatrix, 16 bytes)",
            "wgmma from shared memory",
        ),
    ),
}


def _busiest_unit(counters: _Counters) -> Bottleneck | None:
    share, unit = max((counters.get(unit, 0.0), unit) for unit in _UNITS)
    if share < BUSY:
        return None
    if unit == "l2":
        # L2's number includes what it fetches from memory.
        if "dram" not in counters:
            return None
        if counters["dram"] >= BUSY:
            share, unit = counters["dram"], "dram"
    found = _UNITS[unit]
    evidence = (f"{found.name} {share:.0f} % of peak", found.beside(counters))
    if unit == "shared_share" and _conflict_share(counters) >= CONFLICTS:
        steps = ("swizzle or pad the layout", "ldmatrix in place of single loads")
        return Bottleneck("bank conflicts", evidence, steps)
    return Bottleneck(found.name, evidence, found.next)


def _uncounted(counters: _Counters) -> Bottleneck | None:
    """Unknown if a unit that the later rules depend on was not counted."""
    missing = [_UNITS[unit].name for unit in ("dram", "l2", "tensor") if unit not in counters]
    return (
        Bottleneck(UNKNOWN, tuple(f"{name}: not counted" for name in missing)) if missing else None
    )


def _issue(counters: _Counters) -> Bottleneck | None:
    issue = counters.get("issue", 0.0)
    if issue < ISSUE:
        return None
    pipes = {n: v for n in ("fma", "alu", "xu", "lsu", "tensor") if (v := counters.get(n))}
    top = max(pipes, key=lambda name: pipes[name], default="")
    beside = f"busiest pipe {top} {pipes[top]:.0f} %" if top else "no pipe is known"
    steps = ("fewer instructions an element: unroll, vector loads, packed arithmetic",)
    return Bottleneck("instruction issue", (f"issued in {issue:.0f} % of cycles", beside), steps)


_LATENCY = {
    "long_scoreboard": (
        "memory latency",
        ("prefetch further ahead (cp.async, TMA)", "more warps in flight", "more loads a thread"),
    ),
    "short_scoreboard": (
        "latency of shared memory or exp",
        ("more independent work between load and use", "more warps in flight"),
    ),
    "gmma": (
        "latency of tensor cores",
        ("issue the next product before waiting for this one", "a second consumer warpgroup"),
    ),
    "barrier": (
        "barriers",
        ("smaller blocks", "mbarriers between producers and consumers", "even out the warps' work"),
    ),
    "wait": ("latency of arithmetic", ("more independent chains a thread", "more warps in flight")),
    "membar": ("memory fences", ("narrower fences, or mbarriers that count bytes",)),
    "no_instruction": ("instruction fetch", ("shorter loops: less unrolling",)),
    "lg_throttle": ("global memory instructions", ("wider loads: 16 bytes a thread, or TMA",)),
    "mio_throttle": ("shared memory instructions", ("wider loads and stores, ldmatrix",)),
    "math_pipe_throttle": ("a busy arithmetic pipe", ("spread the work over other pipes",)),
}


def _stall(counters: _Counters) -> Bottleneck | None:
    for name, share in stalls(counters):
        if name in _LATENCY and share >= STALL:
            break
    else:
        return None
    title, steps = _LATENCY[name]
    evidence = (f"{share:.0f} % of a warp's time waits for {STALLS[name]}", _issued(counters))
    achieved, limit = counters.get("occupancy"), limiter(counters)
    if achieved is not None and limit and "more warps in flight" in steps:
        at = steps.index("more warps in flight")
        more = f"more warps in flight: occupancy is {achieved:.0f} %, limited by {limit}"
        steps = (*steps[:at], more, *steps[at + 1 :])
    return Bottleneck(title, evidence, steps)
