"""Print a table of files that examples/train_transformer.py saved, in Markdown.

python scripts/training_table.py results/training/cpu-fp32.json ...
"""

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples"))

import train_transformer  # noqa: E402

NOT_OPTIONS = {"save", "control", "device"}
HEAD = (
    "| options | losses differ by at most: ours | a control's | ours, tokens a second | SDPA's | "
    "ours / SDPA's | control's / SDPA's |\n|---|---:|---:|---:|---:|---:|---:|"
)


def options(run: dict[str, Any]) -> str:
    """What was given to the example, beside the device and the control."""
    usual = vars(train_transformer.arguments([]))
    given = [name for name in usual if name not in NOT_OPTIONS and run[name] != usual[name]]
    return " ".join(f"--{name} {run[name]}" for name in given)


def row(run: dict[str, Any]) -> str:
    """One run: differences of losses as parts of SDPA's, rates with their 95 % intervals; a control
    that was not trained has empty cells."""
    beside = ["ours"] + ([f"sdpa {run['control']}"] if run["control"] else [])
    differences = [f"{run['differences'][name][1]:.2g}" for name in beside]
    rates = [interval(run["rates"][name], 0) for name in ("ours", "sdpa")]
    ratios = [interval(run["rates"][f"{name} / sdpa"], 3) for name in beside]
    missing = [""] * (2 - len(beside))
    return f"| `{options(run)}` | {' | '.join(differences + missing + rates + ratios + missing)} |"


def interval(found: list[float], digits: int) -> str:
    value, low, high = (f"{x:.{digits}f}" for x in found)
    return f"{value} \\[{low}, {high}]"


def main(files: list[str]) -> None:
    """A table for each machine, torch and build, in the order of the files."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for file in files:
        run = json.loads((ROOT / file).read_text())
        title = f"{run['machine']}, torch {run['torch']}, flashbench at {run['commit'][:12]}"
        groups.setdefault(title, []).append(run)
    for title, runs in groups.items():
        controls = sorted({f"`--control {run['control']}`" for run in runs if run["control"]})
        print("; control: ".join([title, *controls]) + f"\n\n{HEAD}")
        for run in runs:
            print(row(run))
        print()


if __name__ == "__main__":
    main(sys.argv[1:])
