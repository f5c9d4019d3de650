"""Regenerate the tables in docs.

`<!-- table: ARGUMENTS -->` is `flashbench show ARGUMENTS`, `<!-- targets: FILE -->` is
`experiments/cpu_targets.py --from FILE`, and `<!-- means: ARGUMENTS, ARGUMENTS -->` one line with
the geometric mean of each `flashbench show ARGUMENTS`.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXTS = ["README.md", "docs/results.md", "docs/lab/cuda-kernels.md", "docs/lab/cpu-kernels.md"]
_TABLE = re.compile(
    r"(<!-- (table|targets|means): ([^>]+) -->\n).*?(<!-- end of table -->)", re.DOTALL
)


def rendered(match: re.Match[str]) -> str:
    before, kind, arguments, after = match.groups()
    if kind == "table":
        text = printed("-m", "flashbench", "show", *arguments.split(), "--format", "markdown")
    elif kind == "means":
        text = means([part.split() for part in arguments.split(",")])
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
        name = f"{machine} ({summary['comparisons']} cases)"
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
    """A page with its tables regenerated from the run files."""
    return _TABLE.sub(rendered, text)


def main() -> None:
    for name in TEXTS:
        page = ROOT / name
        page.write_text(updated(page.read_text()))


if __name__ == "__main__":
    main()
