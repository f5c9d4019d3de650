"""The names of baselines. Results, series and histories are keyed by candidate name, so no other
candidate may have one of these: it would be read as a baseline and replace its times."""

SDPA = "sdpa"
TORCH = "torch:eager"  # of every operation but attention; no candidate's name has a colon
DEFAULT_BASELINES = (SDPA, TORCH)


def is_baseline_name(name: str) -> bool:
    """Whether this name means a default baseline (`sdpa`, `torch:eager`) or a backend
    (`sdpa:math`, `torch:compile`)."""
    return name == SDPA or name.startswith((f"{SDPA}:", "torch:"))


def is_default(name: str) -> bool:
    """Whether this is the baseline that others are compared with."""
    return name in DEFAULT_BASELINES


def title(name: str) -> str:
    """What tables call a baseline."""
    return "SDPA" if name.startswith(SDPA) else "torch"


def backend_spec(default: str, backend: str) -> str:
    """The name of another baseline: `sdpa:math`, `torch:compile`."""
    return f"{default.partition(':')[0]}:{backend}"


def backend_of(spec: str) -> str:
    """The backend of a baseline; "" for the default."""
    return "" if is_default(spec) else spec.partition(":")[2]


def baseline_beside(baseline: str, candidate: str) -> str:
    """The name of a baseline in a candidate's process; "": in the process shared by all. No valid
    candidate name has a `/`."""
    return f"{baseline}/{candidate}" if candidate else baseline
