"""Run: what was measured into one run file."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from flashbench.api.arguments import checked, one_of, project_settings
from flashbench.api.shown import Shown, View, dataframe
from flashbench.api.verdicts import Verdicts
from flashbench.cli.parameter_types import PathType
from flashbench.comparing.rule import Rule, default_rule, rule_of
from flashbench.cost.spent import Spent
from flashbench.fates import counted, fate
from flashbench.report import report_one
from flashbench.run_reader import read_for_analysis
from flashbench.runfile import RunFile
from flashbench.table import Document
from flashbench.views.of_run import document

if TYPE_CHECKING:
    from pandas import DataFrame

    from flashbench.figures.figure import Figure


class Run(Shown):
    """A run file: every sample of every launch, and how it was measured."""

    def __init__(self, file: RunFile, path: Path) -> None:
        """Use `measure` or `load`."""
        self.file = file
        self.path = path

    @property
    def cases(self) -> list[str]:
        """The ids of its cases."""
        return [case.id for case in self.file.cases]

    @property
    def candidates(self) -> list[str]:
        """The names of its candidates, without the baselines."""
        return [one.name for one in self.file.candidates if not one.baseline]

    @property
    def launches(self) -> int:
        """How many launches it has, the last perhaps unfinished."""
        return len(self.file.launches)

    @property
    def complete(self) -> bool:
        """Whether it has every launch of the plan."""
        done = sum(launch.complete for launch in self.file.launches)
        return done >= self.file.settings.launches

    @checked("compare")
    def compare(
        self,
        *,
        against: Literal["sdpa", "best"] | None = None,
        metric: str | None = None,
        tolerance: float | None = None,
        confidence: float | None = None,
    ) -> Verdicts:
        """Judge each candidate against the default baseline ("sdpa"), or the best one; of two
        revisions B against A. metric, tolerance and confidence default to those that a comparison
        of revisions was decided by. Other defaults are the settings of `flashbench compare` here,
        else "sdpa", 0.01 (1 %) and 0.95. Two runs: `flashbench.compare(a, b)`. Raises
        NotMeasuredError if there is nothing to compare."""
        settings = project_settings("compare")
        rule = rule_of(self.file, Rule(metric, tolerance, confidence), default_rule(settings))
        over = against or settings.get("against", "sdpa")
        return Verdicts(report_one(self.file, against=over, **rule.arguments))

    @checked(view=one_of(View | Literal["samples"]))
    def to_dataframe(self, view: View | Literal["samples"] = "speedup") -> "DataFrame":
        """See `Shown`; view "samples" has a row for each sample: `case`, `candidate`, `launch`,
        `block`, `metric` and `seconds` of a call."""
        if view != "samples":
            return super().to_dataframe(view)
        columns: dict[str, list[object]] = {
            name: [] for name in ("case", "candidate", "launch", "block", "metric", "seconds")
        }
        for launch in self.file.launches:
            for result in launch.results:
                for timing in result.timings:
                    count = len(timing.seconds)
                    columns["case"] += [result.case] * count
                    columns["candidate"] += [result.candidate] * count
                    columns["launch"] += [launch.index] * count
                    columns["block"] += timing.block or [0] * count
                    columns["metric"] += [timing.metric] * count
                    columns["seconds"] += timing.seconds
        return dataframe(columns)

    def document(self, view: View = "speedup") -> Document:
        """See `Shown`."""
        return document(self.file, view=view, times=True)

    def figures(self) -> "list[Figure]":
        """The figures of `flashbench report`."""
        from flashbench.figures.chapter import figures

        return figures(report_one(self.file), ())

    def __repr__(self) -> str:
        results = [result for launch in self.file.launches for result in launch.results]
        words = f"{self.launches} launches, {counted(map(fate, results))}"
        return f"<Run {self.path}: {words}; {Spent.of(self.file).line}>"


@checked(path=PathType())
def load(path: str | Path) -> Run:
    """Read a run file. Nothing in it is executed or imported. Raises InvalidInputError."""
    return Run(read_for_analysis(Path(path)), Path(path))
