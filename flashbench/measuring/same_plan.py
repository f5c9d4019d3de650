"""Decide whether a run file holds measurements of this plan, and may be resumed with it.

Compares everything that changes the numbers or their subject: cases, shard, candidates with
their builds, baselines, device, samples, seed, length of a sample, threads, metrics, and for two
builds the rule that ends a case. Time-outs, budget, price and the command line may differ, and
launches may be added. What only a worker knows (the machine, the builds of functions that it
imports) is compared when it starts: flashbench/measuring/identity.py.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from flashbench.candidates import baselines
from flashbench.errors import InvalidInputError
from flashbench.measuring.plan import Plan
from flashbench.metric import DEFAULT_METRIC
from flashbench.runfile import Candidate, RunFile
from flashbench.sample_counts import MIN_SAMPLE_SECONDS
from flashbench.streams import Tell


def require_same(run: RunFile, plan: Plan, path: Path, flag: str, *, called: str) -> None:
    """Raise InvalidInputError with all differences if a run file has another plan.

    flag: the option that named the file; called: the user's word for its candidates.
    """
    if found := differences(run, plan, called):
        raise InvalidInputError(
            f"{path}: was measured with other {', '.join(found)}; name another file with {flag}, "
            "or replace this one with --force"
        )


def continued(
    run: RunFile,
    plan: Plan,
    path: Path,
    flag: str,
    tell: Tell,
    *,
    called: str = "candidates",
) -> Plan:
    """The plan that completes the run file of an earlier call; reports what is already there.

    Errors as for `require_same`.
    """
    require_same(run, plan, path, flag, called=called)
    done = sum(launch.complete for launch in run.launches)
    force = "--force" if flag.startswith("-") else "force=True"
    tell(f"{path}: resumed, with {done} of {plan.launches} launches; {force} measures from scratch")
    return replace(plan, device=run.cases[0].device)


def differences(run: RunFile, plan: Plan, called: str = "candidates") -> list[str]:
    """The differences between a plan and a run file's plan; empty: none."""
    if not run.cases:
        return ["cases (none)"]
    device, settings = run.cases[0].device, run.settings
    if plan.device not in (device, "auto"):
        return [f"device ({device})"]
    shortest = plan.min_sample_seconds
    if shortest is None:
        shortest = MIN_SAMPLE_SECONDS[device]
    mine = [candidate for candidate in run.candidates if not candidate.baseline]
    theirs = [candidate for candidate in run.candidates if candidate.baseline]
    compared = {
        "--operation": run.operation == plan.operation,
        called: _specs(mine) == _specs(plan.candidates),
        "builds": _same_builds(mine, plan),
        "--backends": {one.spec for one in theirs}
        == {one.spec for one in baselines(device, plan.backends, plan.operation)},
        f"--processes ({settings.processes})": plan.processes in ("auto", settings.processes),
        f"--workers ({settings.workers})": plan.workers in ("auto", settings.workers),
        "cases": {case.id for case in run.cases} == {case.id for case in plan.cases(device)},
        f"--shard ({settings.shard.partition(':')[0] or 'none'})": settings.shard == plan.shard,
        f"--samples ({settings.samples})": settings.samples == plan.samples,
        f"--seed ({settings.seed})": settings.seed == plan.seed,
        f"--min-sample ({settings.min_sample_seconds:g} s)": (
            settings.min_sample_seconds == shortest
        ),
        f"--threads ({run.environment.threads})": (plan.threads in (None, run.environment.threads)),
        "--launches (fewer)": (plan.launches >= settings.launches),
        "--metric": _same_metrics(run, plan, device),
        "rule that ends a case (--tolerance, --confidence, --metric)": run.pair == plan.pair,
    }
    return [what for what, same in compared.items() if not same]


def _specs(candidates: Iterable[Candidate]) -> set[tuple[str, str]]:
    return {(one.name, one.spec) for one in candidates}


def _same_builds(mine: list[Candidate], plan: Plan) -> bool:
    """Whether the builds that the plan names are equal; a worker finds those of its imports."""
    planned = {one.name: one.build.hashes for one in plan.candidates if any(one.build.hashes)}
    return all(planned.get(one.name, one.build.hashes) == one.build.hashes for one in mine)


def _same_metrics(run: RunFile, plan: Plan, device: str) -> bool:
    known = run.settings.metrics
    if known is not None or plan.metrics is None:
        return known == (None if plan.metrics is None else list(plan.metrics))
    # An older file does not state its metrics; its timings do.
    found = {t.metric for launch in run.launches for r in launch.results for t in r.timings}
    return not found or found == set(plan.metrics or [DEFAULT_METRIC[device]])
