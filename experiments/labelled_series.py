"""Which changes are found in public series that others labelled, beside Perfherder's rule?

python experiments/labelled_series.py TREEHERDER TCPD HANA

TREEHERDER, TCPD and HANA: checkouts of github.com/mozilla/treeherder,
github.com/alan-turing-institute/TCPD (Van den Burg & Williams, arXiv 2003.06222) and
github.com/SAP/performance-regression-data-set. Their series and labels are read there; nothing of
them is kept here. A change within 5 points of a label is right.

HANA's labels are what its engineers concluded, TCPD's those of five people a series, Treeherder's
what Perfherder's rule answers on these series (its regression test). So of the last, changes
without a label are tested on points that the search did not see, and steps are planted in its
noise, too.
"""

import ast
import csv
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from flashbench.arrays import FloatArray
from flashbench.stats.segments import segment
from flashbench.stats.shift import mann_whitney_p

Rule = Callable[[FloatArray], list[int]]
MARGIN = 5  # points, as in TCPD's paper
PLANTED, POINTS = 400, 200


def shown(values: FloatArray) -> list[int]:
    return [step.at for step in segment(values).steps]


def counting(values: FloatArray) -> list[int]:
    return [step.at for step in segment(values).steps if not step.provisional]


def perfherder(values: FloatArray) -> list[int]:
    """Where the t statistic of the 12 to 24 points before and the 12 from there on is above 7 and
    above its neighbours'; nearer points weigh more. Source: treeherder's perfalert, defaults."""
    t = np.zeros(len(values))
    since = 0
    for at in range(1, len(values)):
        before = values[max(0, at - min(max(since, 12), 24)) : at][::-1]
        t[at] = abs(_weighted_t(before, values[at : at + 12]))
        since = 0 if t[at] > 7 else since + 1
    places = range(12, len(values) - 11)
    return [
        at for at in places if t[at] > 7 and t[at] >= max(t[at - 1], t[min(at + 1, len(t) - 1)])
    ]


def nothing(values: FloatArray) -> list[int]:
    return []


RULES: tuple[Rule, ...] = (shown, counting, perfherder, nothing)


def _weighted_t(before: FloatArray, after: FloatArray) -> float:
    """Weights fall from 1 by 1 / n; the variance is about the weighted mean, unweighted."""
    means, variance = [], 0.0
    for side in (before, after):
        count = len(side)
        means.append(float(np.average(side, weights=np.arange(count, 0, -1))))
        if count > 1:
            variance += float(((side - means[-1]) ** 2).sum()) / (count - 1) / count
    difference = means[1] - means[0]
    return difference / variance**0.5 if variance else np.inf * difference if difference else 0.0


def treeherder(checkout: Path) -> Iterable[tuple[FloatArray, list[int]]]:
    """Log values in the order of pushes, and the places of the labels."""
    test = (checkout / "tests/perfalert/test_analyze.py").read_text()
    for name, times in re.findall(r'\("(\w+\.json)", (\[[\d, ]*\])\)', test):
        file = checkout / "tests/sample_data/artifacts/performance/graphs" / name
        runs = sorted((run[2], run[3]) for run in json.loads(file.read_text())["test_runs"])
        pushed = [time for time, _ in runs]
        labels = [pushed.index(time) for time in ast.literal_eval(times)]
        yield np.log([value for _, value in runs]), labels


def tcpd(checkout: Path) -> Iterable[tuple[FloatArray, list[list[int]]]]:
    """Values, and each person's labels, of all series of one dimension that the checkout has."""
    people = json.loads((checkout / "annotations.json").read_text())
    for file in sorted(checkout.glob("datasets/*/*.json")):
        content = json.loads(file.read_text())
        if content["name"] in people and content["n_dim"] == 1:
            raw = np.array(content["series"][0]["raw"], dtype=float)
            there = np.flatnonzero(~np.isnan(raw))
            labels = [
                [int(np.searchsorted(there, at)) for at in one]
                for one in people[content["name"]].values()
            ]
            yield raw[there], labels


def hana(checkout: Path, *, by_build: bool) -> Iterable[tuple[FloatArray, list[int]]]:
    """Log times, of builds (medians) or single measurements, and the place of the regression, if
    the series has one."""
    folder = checkout / "hana/small_2021"
    for series in csv.DictReader((folder / "metadata/dataset_details.csv").open(), delimiter=";"):
        rows = list(csv.DictReader((folder / "data" / series["Dataset"]).open()))
        times = np.array([float(row["Measurement"]) for row in rows])
        builds, numbers = np.unique([int(row["GHC"]) for row in rows], return_inverse=True)
        last = int(series["Change Point"])  # from 1: the last one before the change, or 0
        if by_build:
            of_each = [np.median(times[numbers == one]) for one in range(len(builds))]
            yield np.log(of_each), [int(numbers[last])] if last else []
        else:
            yield np.log(times), [last] if last else []


def as_logs(values: FloatArray) -> FloatArray:
    """Logs, or where values may be 0 the values, scaled to a standard deviation of 10 %."""
    scaled: FloatArray = 0.1 * (values - np.median(values)) / values.std()
    return np.log(values) if values.min() > 0 else scaled


def hits(labels: Iterable[int], found: Iterable[int]) -> int:
    """Labels with a change of their own near them."""
    left, count = set(found), 0
    for label in sorted(labels):
        near = [at for at in left if abs(at - label) <= MARGIN]
        if near:
            left.remove(min(near, key=lambda at: abs(at - label)))
            count += 1
    return count


def people_f1(people: Sequence[Sequence[int]], found: Sequence[int]) -> float:
    """As TCPD's paper defines it: the start counts as a change, precision is by all people's labels
    together, recall the mean over people."""
    with_start = {0, *found}
    each = [{0, *labels} for labels in people]
    precision = hits(set().union(*each), with_start) / len(with_start)
    recall = float(np.mean([hits(labels, with_start) / len(labels) for labels in each]))
    return 2 * precision * recall / (precision + recall)


def planted(noises: Sequence[FloatArray], seed: int = 18) -> Iterable[tuple[FloatArray, list[int]]]:
    """Pieces of noise with three steps of 2 to 8 standard deviations, at least 24 points apart."""
    rng = np.random.default_rng(seed)
    for number in range(PLANTED):
        noise = noises[number % len(noises)]
        points = min(POINTS, len(noise))
        start = rng.integers(len(noise) - points + 1)
        values = noise[start : start + points].copy()
        usual = 1.4826 * np.median(np.abs(np.diff(values))) / 2**0.5
        third = points // 3
        places = [int(rng.integers(k * third + 12, (k + 1) * third - 12)) for k in range(3)]
        for at in places:
            values[at:] += usual * rng.choice([-1, 1]) * 2 ** rng.uniform(1, 3)
        yield values, places


def noise_of(values: FloatArray) -> FloatArray:
    """What remains without the levels of either rule."""
    cuts = sorted({*shown(values), *perfherder(values)})
    levels = [level for level in np.split(values, cuts) if len(level) > 2]
    return np.concatenate([level - np.median(level) for level in levels])


def unseen(values: FloatArray, labels: list[int]) -> tuple[int, int]:
    """Counting changes of every second point that have no label; and how many of them the points
    between confirm (same direction, p <= 0.01 by ranks of up to 64 on either side)."""
    searched, other = values[::2], values[1::2]
    ends = [0, *shown(searched), len(searched)]
    sizes = {at: (left, right) for left, at, right in zip(ends, ends[1:], ends[2:], strict=False)}
    confirmed = []
    for at in counting(searched):
        if any(abs(2 * at - label) <= 2 * MARGIN for label in labels):
            continue
        left, right = sizes[at]
        sides = [
            (x[max(left, at - 64) : at], x[at : min(right, at + 64)]) for x in (searched, other)
        ]
        moves = [np.median(new) - np.median(old) for old, new in sides]
        alike = bool(moves[0] * moves[1] > 0)
        confirmed.append(alike and mann_whitney_p(*sides[1]) <= 0.01)
    return len(confirmed), sum(confirmed)


def print_table(series: Sequence[tuple[FloatArray, list[int]]]) -> None:
    print("| rule | labels found | other changes | precision | recall | F1 |")
    print("|---|---|---|---|---|---|")
    total = sum(len(labels) for _, labels in series)
    for rule in RULES[:3]:
        answers = [rule(values) for values, _ in series]
        right = sum(hits(labels, found) for (_, labels), found in zip(series, answers, strict=True))
        made = sum(map(len, answers))
        shares = (right / max(made, 1), right / total, 2 * right / (total + made))
        cells = [f"{right} of {total}", f"{made - right}", *(f"{share:.2f}" for share in shares)]
        print(f"| {rule.__name__} | {' | '.join(cells)} |")


def main() -> None:
    series = list(treeherder(Path(sys.argv[1])))
    print_table(series)
    counts = np.array([unseen(*one) for one in series]).sum(axis=0)
    print(f"\nchanges without a label in every second point: {counts[0]}, confirmed {counts[1]}\n")
    print_table(list(planted([noise_of(values) for values, _ in series])))
    for by_build in (True, False):
        print(f"\nHANA, {'builds' if by_build else 'single measurements'}\n")
        print_table(list(hana(Path(sys.argv[3]), by_build=by_build)))
    people = list(tcpd(Path(sys.argv[2])))
    print(f"\n| rule | mean F1 on {len(people)} series |\n|---|---|")
    for rule in RULES:
        as_taken = np.array if rule is perfherder else as_logs  # it knows no logs
        mean = np.mean([people_f1(labels, rule(as_taken(raw))) for raw, labels in people])
        print(f"| {rule.__name__} | {mean:.3f} |")


if __name__ == "__main__":
    main()
