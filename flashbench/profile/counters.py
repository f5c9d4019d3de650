"""The hardware counters to collect, by the names that rules and tables use.

A counter has several names, because architectures and versions of Nsight Compute differ. Those that
this `ncu` knows are collected; the first with a number is used.
"""

from collections.abc import Collection, Mapping

_ACTIVE = ".avg.pct_of_peak_sustained_active"
_ELAPSED = ".avg.pct_of_peak_sustained_elapsed"

_MOST_PERCENT = 110.0

# Stall reasons by ncu's names. Shares are of the cycles between two of a warp's instructions.
STALLS = {
    "long_scoreboard": "global or local memory",
    "short_scoreboard": "shared memory or exp",
    "gmma": "tensor cores (wgmma)",
    "math_pipe_throttle": "a busy arithmetic pipe",
    "mio_throttle": "a full queue to shared memory and exp",
    "lg_throttle": "a full queue to global memory",
    "tex_throttle": "a full queue to textures",
    "barrier": "other warps at a barrier",
    "membar": "a memory fence",
    "wait": "a fixed latency",
    "not_selected": "another warp that was chosen",
    "no_instruction": "instructions to be fetched",
    "imc_miss": "constants to be fetched",
    "branch_resolving": "a branch",
    "dispatch_stall": "the dispatcher",
    "drain": "its last stores",
    "sleeping": "its own sleep",
    "misc": "something else",
}
# The pipes of the instruction mix, in words.
PIPES = {
    "tensor": "tensor cores",
    "fma": "FMA pipe",
    "alu": "integer and logic pipe",
    "xu": "exponential unit (XU)",
    "lsu": "loads and stores",
    "uniform": "uniform pipe",
    "fp16": "half-precision pipe",
    "fp64": "double-precision pipe",
    "tma": "TMA",
}

# A counter and its names in ncu, the preferred one first.
NAMES: dict[str, tuple[str, ...]] = {
    "duration": ("gpu__time_duration.sum",),
    "sm": (f"sm__throughput{_ELAPSED}",),
    # In cycles of the pipe, whose instructions take more than one each.
    "tensor": (
        f"sm__pipe_tensor_cycles_active{_ACTIVE}",
        f"sm__pipe_tensor_op_hmma_cycles_active{_ACTIVE}",
    ),
    "fma": (f"sm__pipe_fma_cycles_active{_ACTIVE}", f"sm__inst_executed_pipe_fma{_ACTIVE}"),
    "alu": (f"sm__pipe_alu_cycles_active{_ACTIVE}", f"sm__inst_executed_pipe_alu{_ACTIVE}"),
    "xu": (f"sm__inst_executed_pipe_xu{_ACTIVE}",),
    "lsu": (f"sm__inst_executed_pipe_lsu{_ACTIVE}",),
    "issue": ("smsp__issue_active.avg.pct_of_peak_sustained_active",),
    "l1": (f"l1tex__throughput{_ACTIVE}",),
    "l2": (f"lts__throughput{_ELAPSED}",),
    "dram": (f"dram__throughput{_ELAPSED}", f"gpu__dram_throughput{_ELAPSED}"),
    "l1_hits": ("l1tex__t_sector_hit_rate.pct",),
    "l2_hits": ("lts__t_sector_hit_rate.pct",),
    "l2_bytes": ("lts__t_bytes.sum",),
    "dram_read": ("dram__bytes_read.sum",),
    "dram_write": ("dram__bytes_write.sum",),
    # Cycles in which shared memory was read or written, and those of them added by bank conflicts.
    "shared_cycles": ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",),
    "shared_share": (f"l1tex__data_pipe_lsu_wavefronts_mem_shared{_ELAPSED}",),
    "conflicts": ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",),
    "occupancy": (f"sm__warps_active{_ACTIVE}",),
    "occupancy_possible": ("sm__maximum_warps_per_active_cycle_pct",),
    "limit_registers": ("launch__occupancy_limit_registers",),
    "limit_shared": ("launch__occupancy_limit_shared_mem",),
    "limit_warps": ("launch__occupancy_limit_warps",),
    "limit_blocks": ("launch__occupancy_limit_blocks",),
    "limit_barriers": ("launch__occupancy_limit_barriers",),
    "waves": ("launch__waves_per_multiprocessor",),
    "registers": ("launch__registers_per_thread",),
    "shared_static": ("launch__shared_mem_per_block_static",),
    "shared_dynamic": ("launch__shared_mem_per_block_dynamic",),
    "block": ("launch__block_size",),
    "grid": ("launch__grid_size",),
    "cluster": ("launch__cluster_size",),
    "active_cycles": ("sm__cycles_active.avg",),
    "elapsed_cycles": ("sm__cycles_elapsed.max",),
    "instructions": ("smsp__inst_executed.sum",),
    "warp_latency": ("smsp__average_warp_latency_per_inst_issued.ratio",),
    **{
        f"stall_{name}": (f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio",)
        for name in STALLS
    },
    **{f"pipe_{name}": (f"sm__inst_executed_pipe_{name}.sum",) for name in PIPES},
}


def wanted(known: Collection[str]) -> list[str]:
    """Names to collect, of those that `ncu --query-metrics` lists without suffixes; all of them if
    it lists none. Launch parameters are always available."""
    names = [name for several in NAMES.values() for name in several]
    always = ("launch__", "sm__maximum_warps")
    return [
        name
        for name in names
        if not known or name.startswith(always) or name.partition(".")[0] in known
    ]


def read(values: Mapping[str, float]) -> dict[str, float]:
    """Our counters from ncu's numbers for one kernel, as far as it has them."""
    found = {}
    for counter, names in NAMES.items():
        known = [_plausible(name, values[name]) for name in names if name in values]
        value = next((one for one in known if one is not None), None)
        if value is not None:
            found[counter] = value
    return found


def _plausible(name: str, value: float) -> float | None:
    """A percentage a little above 100 is 100: a later replay counted more than the one that it is
    divided by. One far above, or a negative number, is no measurement."""
    percent = ".pct" in name or name.endswith("_pct")
    if value < 0 or (percent and value > _MOST_PERCENT):
        return None
    return min(value, 100.0) if percent else value
