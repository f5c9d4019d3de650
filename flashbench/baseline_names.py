"""The names of SDPA and its backends. Results, series and histories are keyed by candidate name, so
no other candidate may have one of these: it would be read as SDPA and replace its times."""

SDPA = "sdpa"


def is_baseline_name(name: str) -> bool:
    """Whether this name means SDPA's default (`sdpa`) or a backend (`sdpa:math`)."""
    return name == SDPA or name.startswith(f"{SDPA}:")


def baseline_beside(baseline: str, candidate: str) -> str:
    """The name of a baseline in a candidate's process; "": in the process shared by all. No valid
    candidate name has a `/`."""
    return f"{baseline}/{candidate}" if candidate else baseline
