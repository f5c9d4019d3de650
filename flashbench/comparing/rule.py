"""Rule: the metric, tolerance and confidence by which cases are judged."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flashbench import defaults
from flashbench.runfile import RunFile


@dataclass(frozen=True, slots=True)
class Rule:
    """None where nothing is given; a metric of None is also the device's default."""

    metric: str | None = None
    tolerance: float | None = None
    confidence: float | None = None

    @property
    def alpha(self) -> float | None:
        return None if self.confidence is None else 1 - self.confidence

    @property
    def arguments(self) -> dict[str, Any]:
        """As the functions of `report` take them."""
        return {"metric": self.metric, "tolerance": self.tolerance, "alpha": self.alpha}

    def over(self, other: "Rule") -> "Rule":
        """This rule, and the other's where it says nothing."""
        return Rule(
            self.metric or other.metric,
            other.tolerance if self.tolerance is None else self.tolerance,
            other.confidence if self.confidence is None else self.confidence,
        )


DEFAULT = Rule(None, defaults.TOLERANCE, defaults.CONFIDENCE)


def default_rule(settings: Mapping[str, Any]) -> Rule:
    """The rule of the project's settings, and the default where they say nothing."""
    names = ("metric", "tolerance", "confidence")
    return Rule(*(settings.get(name) for name in names)).over(DEFAULT)


def rule_of(run: RunFile | None, said: Rule, default: Rule = DEFAULT) -> Rule:
    """What is given, else the rule by which the run's two builds were decided, else the default."""
    if run is not None and (pair := run.pair) is not None:
        default = Rule(pair.metric or None, pair.tolerance, pair.confidence)
    return said.over(default)
