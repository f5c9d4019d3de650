"""Writes the tables in docs anew.

`<!-- table: ARGUMENTS -->` is `flashbench show ARGUMENTS`, `<!-- targets: FILE -->` is
`experiments/cpu_targets.py --from FILE`.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXTS = ["docs/results.md", "docs/lab/cuda-kernels.md", "docs/lab/cpu-kernels.md"]
_TABLE = re.compile(r"(<!-- (table|targets): ([^>]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def rendered(match: re.Match[str]) -> str:
    before, kind, arguments, after = match.groups()
    if kind == "table":
        command = ["-m", "flashbench", "show", *arguments.split(), "--format", "markdown"]
    else:
        command = ["experiments/cpu_targets.py", "--from", *arguments.split()]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{arguments}: {done.stderr.strip()}")
    return f"{before}\n{done.stdout.strip()}\n\n{after}"


def main() -> None:
    for name in TEXTS:
        text = ROOT / name
        text.write_text(_TABLE.sub(rendered, text.read_text()))


if __name__ == "__main__":
    main()
