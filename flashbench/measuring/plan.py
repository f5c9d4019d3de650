"""What to measure, and in which order: a function of the seed, so that a run can be resumed."""

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from flashbench import defaults, operations
from flashbench.case import DEFAULT_DTYPES, Case, DtypeName
from flashbench.measuring.protocol import Setup
from flashbench.operations import Options, Sizes
from flashbench.runfile import Candidate, Pair, Processes, Workers
from flashbench.sample_counts import PASSES

_PROOFS = 2  # launches, one in either order of the revisions


@dataclass(frozen=True)
class Plan:
    """What to measure. Fields that are None mean the device's defaults, which the worker knows."""

    shapes: Sequence[Sizes]
    candidates: Sequence[Candidate]  # without the baselines; empty: only these
    dtypes: Sequence[DtypeName] | None = None
    options: Sequence[Options] | None = None
    device: str = "auto"
    backends: str = "auto"
    launches: int = defaults.LAUNCHES
    samples: int = defaults.SAMPLES
    seed: int = defaults.SEED
    threads: int | None = None
    min_sample_seconds: float | None = None
    timeout_seconds: float = defaults.TIMEOUT_SECONDS
    budget_seconds: float | None = None
    hourly_rate: float | None = None
    currency: str = ""  # of the rate; "": not said
    price: str = ""  # where the rate is from
    build_seconds: float = 0.0  # that builds and their checks took for it
    command: Sequence[str] = ()
    shard: str = ""  # such as "2/4": the part of the grid to measure; "": all of it
    metrics: Sequence[str] | None = None
    # By name, for candidates that are built revisions.
    import_roots: Mapping[str, str] = field(default_factory=dict)
    repository: str = ""  # the working tree of these
    import_root: str = ""  # searched first for modules of other candidates
    processes: Literal["auto"] | Processes = "auto"  # as the resumed file has it, or shared
    workers: Literal["auto"] | Workers = "auto"  # as the resumed file has it, or forked
    pair: Pair | None = None
    chosen: Sequence[Case] = ()  # in place of a grid
    operation: str = operations.DEFAULT

    def cases(self, device: str) -> list[Case]:
        """The whole grid on "cpu" or "cuda", or what was chosen in its place."""
        if self.chosen:
            return list(self.chosen)
        operation = operations.named(self.operation)
        dtypes = self.dtypes or DEFAULT_DTYPES[device]
        options = operation.options if self.options is None else self.options
        return operation.grid(self.shapes, dtypes, options, device)

    def looks_for_traces(self, launch: int) -> bool:
        """Whether revisions share the process of this launch, and it is one of the first two: their
        code, calls and orders are those of all launches."""
        return len(self.import_roots) > 1 and self.processes != "paired" and launch < _PROOFS

    def setup(self, candidates: list[Candidate], launch: int) -> Setup:
        """What the worker of a launch has to know before it measures these candidates."""
        return Setup(
            device=self.device,
            candidates=candidates,
            backends=self.backends,
            threads=self.threads,
            samples=self.samples,
            min_sample_seconds=self.min_sample_seconds,
            metrics=None if self.metrics is None else list(self.metrics),
            import_roots=dict(self.import_roots),
            repository=self.repository,
            import_root=self.import_root,
            operation=self.operation,
            operation_root=operations.named(self.operation).import_root,
            traces=self.looks_for_traces(launch),
        )


def derive_seed(*parts: object) -> int:
    """A 63-bit seed derived from its purpose; the same in every process and Python version."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def launch_seed(seed: int, launch: int) -> int:
    return derive_seed(seed, "launch", launch)


def case_order(cases: Sequence[Case], seed: int) -> list[Case]:
    """The cases of one launch in random order, so drift never hits the same case."""
    order = list(cases)
    random.Random(seed).shuffle(order)
    return order


def candidate_order(names: Sequence[str], seed: int, launch: int) -> list[str]:
    """The order in which a launch loads and calls candidates: random, reversed in the next launch.

    So coming first is no advantage over two launches, and of two equal candidates neither comes
    first more often: their difference is symmetric about 0, whatever the noise.
    """
    order = sorted(names)
    random.Random(derive_seed(seed, "candidates", launch // 2)).shuffle(order)
    return order[::-1] if launch % 2 else order


def passes(count: int, seed: int) -> list[list[int]]:
    """Orders in which `count` candidates are measured: forward, then backward (A/B/B/A).

    Each pair of passes starts one candidate later, so none is always first or last; the seed
    decides which starts. Samples of one pass were measured side by side: a pass is a block.
    """
    start = random.Random(seed).randrange(count) if count else 0
    orders = []
    for index in range(PASSES):
        first = start + index // 2
        order = [(first + place) % count for place in range(count)]
        orders.append(order if index % 2 == 0 else order[::-1])
    return orders
