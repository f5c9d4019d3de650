"""Regenerate the tables in docs.

`<!-- table: ARGUMENTS -->` is `flashbench show ARGUMENTS`, `<!-- targets: FILE -->` is
`experiments/cpu_targets.py --from FILE`, `<!-- training: FILES -->` is
`scripts/training_table.py FILES`, and `<!-- means: ARGUMENTS, ARGUMENTS -->` one line with
the geometric mean of each `flashbench show ARGUMENTS`. "up to N TFLOP/s in DTYPE on an NVIDIA
H200" is the highest rate of flashbench in results/h200.json.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXTS = [
    "README.md",
    "docs/results.md",
    "docs/training.md",
    "docs/lab/cuda-kernels.md",
    "docs/lab/cpu-kernels.md",
]
_TABLE = re.compile(
    r"(<!-- (table|targets|training|means): ([^>]+) -->\n).*?(<!-- end of table -->)", re.DOTALL
)
BEST = re.compile(r"up to \d+ TFLOP/s in \w+ on an NVIDIA H200")


def rendered(match: re.Match[str]) -> str:
    before, kind, arguments, after = match.groups()
    if kind == "table":
        text = printed("-m", "flashbench", "show", *arguments.split(), "--format", "markdown")
    elif kind == "means":
        text = means([part.split() for part in arguments.split(",")])
    elif kind == "training":
        text = printed("scripts/training_table.py", *arguments.split())
    else:
        text = printed("experiments/cpu_targets.py", "--from", *arguments.split())
    return f"{before}\n{text.strip()}\n\n{after}"


def means(shown: list[list[str]]) -> str:
    """One line: the geometric mean of SDPA's time over ours, by machine and metric."""
    by_machine: dict[str, list[str]] = {}
    for arguments in shown:
        table = json.loads(printed("-m", "flashbench", "show", *arguments, "--format", "json"))
        # AMD EPYC with 2 threads, torch ..., 10 launches, eager wall time, flashbench at ...
        machine, rest = re.split(r", torch [^,]+, \d+ launches, ", table["header"][0])
        metric = rest.rpartition(", flashbench at ")[0]
        summary = table["summary"]
        gradients = " of gradients" * ("attention-backward-" in table["rows"][0]["case"])
        models = " of models' shapes" * ("-models" in arguments[0])
        name = f"{machine} ({summary['comparisons']} cases{gradients}{models})"
        mean = summary["geometric_mean:flashbench"]["speedup"]
        by_machine.setdefault(name, []).append(f"{mean:.2f} ({metric})")
    found = "; ".join(f"{name} {', '.join(values)}" for name, values in by_machine.items())
    return f"SDPA's time over ours, geometric mean ([all cases](docs/results.md)): {found}."


def printed(*command: str) -> str:
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def updated(text: str) -> str:
    """A page with its tables and best rate regenerated from the run files."""
    return BEST.sub(lambda _: best("results/h200.json"), _TABLE.sub(rendered, text))


def best(file: str) -> str:
    """The highest rate in a run file, in words."""
    table = json.loads(printed("-m", "flashbench", "show", file, "--format", "json"))
    row = max(table["rows"], key=lambda one: one["candidate_tflops"] or 0)
    dtype = next(word for word in row["case"].split("-") if word in ("fp16", "bf16", "fp32"))
    machine = table["header"][0].partition(", torch ")[0]
    return f"up to {row['candidate_tflops']:.0f} TFLOP/s in {dtype} on an {machine}"


def main() -> None:
    for name in TEXTS:
        page = ROOT / name
        page.write_text(updated(page.read_text()))


if __name__ == "__main__":
    main()
