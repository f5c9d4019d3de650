"""Describe how a run file was measured: facts, and a paragraph for a paper."""

from flashbench import operations
from flashbench.cost.spent import Spent
from flashbench.launches import LaunchData, own_candidates
from flashbench.metric import label_of
from flashbench.operations.operation import listed
from flashbench.report import Report
from flashbench.runfile import RunFile
from flashbench.table import percentage, speedup_cell
from flashbench.views import frame

Facts = list[tuple[str, str]]


def facts(run: RunFile) -> Facts:
    """Machine, versions, builds, effort and cost; unknown ones are left out."""
    e, s = run.environment, run.settings
    found = [
        ("machine", e.hostname),
        ("CPU", " ".join(filter(None, [e.cpu, f"({e.cpu_count} threads)" if e.cpu_count else ""]))),
        ("GPU", e.gpu),
        ("memory", f"{e.memory_bytes / 2**30:.0f} GiB" if e.memory_bytes else ""),
        ("threads of torch", str(e.threads or "")),
        ("system", e.system),
        ("driver", ", ".join(filter(None, [e.driver, f"CUDA {e.cuda}" if e.cuda else ""]))),
        ("torch", e.torch),
        ("Python", e.python),
        ("flashbench version", run.flashbench),
        ("measured", run.created),
        ("command", " ".join(run.command)),
        ("effort", f"{len(run.launches)} launches, {s.samples} samples each, seed {s.seed}"),
    ]
    for candidate in run.candidates:
        build = candidate.build
        parts = [
            candidate.spec if candidate.spec != candidate.name else "",
            f"commit {build.commit}" if build.commit else "",
            "with uncommitted changes" if build.dirty else "",
            f"sources {build.source_hash[:16]}" if build.source_hash else "",
        ]
        found.append((candidate.name, ", ".join(filter(None, parts))))
    found.append(("cost", Spent.of(run).line))
    return [(name, text) for name, text in found if text]


def paragraph(report: Report, data: LaunchData) -> str:
    """How it was measured and judged, and the result."""
    return " ".join([_setup(data), _measuring(data), _deciding(report, data), _result(report)])


def _setup(data: LaunchData) -> str:
    run = data.run
    ours = [candidate.name for _, candidate in own_candidates(run)]
    baselines = [candidate.name for candidate in run.candidates if candidate.baseline]
    devices = [
        frame.machine_text(run.environment, d) for d in sorted({c.device for c in run.cases})
    ]
    software = [f"PyTorch {run.environment.torch}" if run.environment.torch else "PyTorch"]
    software += [f"CUDA {run.environment.cuda}"] if run.environment.cuda else []
    operation = operations.of_file(run.cases)
    subject = f"We measured {listed(ours)} against" if ours else "We measured"
    return (
        f"{subject} {listed(baselines)} of {', '.join(software)} on {listed(devices)}, on "
        f"{len(run.cases)} {operation.name} problem{'s' * (len(run.cases) != 1)} "
        f"({operation.grid_in_words(run.cases)})."
    )


def _measuring(data: LaunchData) -> str:
    run = data.run
    s = run.settings
    together = (
        "one process for each candidate, in turns"
        if s.processes == "paired"
        else ("one process for all candidates")
    )
    metrics = listed(sorted({label_of(metric) for metric in data.metrics}))
    least = f" of at least {s.min_sample_seconds * 1e3:g} ms" if s.min_sample_seconds else ""
    checked = any(r.correctness for launch in run.launches for r in launch.results)
    text = (
        f"Each of {len(run.launches)} launches was {together}, started anew; in a launch the "
        f"candidates of a case took turns (A/B/B/A), with up to {s.samples} samples{least} each "
        f"({metrics}), on inputs drawn from seed {s.seed}."
    )
    if checked:
        text += " Each output was compared with a float64 reference before and after it was timed."
    dropped = data.dropped_blocks()
    return text + f" {dropped} blocks measured while throttled were dropped." * bool(dropped)


def _deciding(report: Report, data: LaunchData) -> str:
    if not report.comparisons:
        return "Times are medians over launches."
    count = sum(1 for comparison in report.comparisons if comparison.shift)
    if data.run.pair is not None:
        interval = "an anytime-valid confidence sequence, as cases left the plan once decided"
    else:
        interval = (
            "the Hodges-Lehmann estimate with the exact interval of the signed-rank statistic"
        )
    return (
        "The launch is the unit of evidence: its speed-up is the median, over all pairs of samples "
        "of a block measured side by side, of the log ratio of times. Over launches we report "
        f"{interval}, with a joint confidence of {percentage(1 - report.alpha)} for {count} "
        f"comparison{'s' * (count != 1)}. "
        "A case is faster or slower if its whole interval lies beyond a tolerance of "
        f"{percentage(report.tolerance)}, and the same if it lies within."
    )


def _result(report: Report) -> str:
    counts: dict[str, int] = {}
    for verdict in report.verdicts:
        counts[verdict.outcome] = counts.get(verdict.outcome, 0) + 1
    parts = [f"{count} {name}" for name, count in counts.items()]
    means = [
        f"the geometric mean of the speed-ups of {name} was {speedup_cell(shift).text}"
        for name, shift in report.overall.items()
    ]
    if not parts:
        return ""
    total = len(report.verdicts)
    text = f"Verdicts of {total} comparison{'s' * (total != 1)}: {listed(parts)}"
    return f"{text}; {listed(means)}." if means else f"{text}."
