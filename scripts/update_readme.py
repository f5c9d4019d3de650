"""Writes the README's tables anew: `<!-- table: ARGUMENTS -->` is `flashbench show ARGUMENTS`."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_TABLE = re.compile(r"(<!-- table: ([^>]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def rendered(match: re.Match[str]) -> str:
    command = [sys.executable, "-m", "flashbench", "show", *match[2].split()]
    command += ["--format", "markdown"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{match[2]}: {done.stderr.strip()}")
    return f"{match[1]}\n{done.stdout.strip()}\n\n{match[3]}"


def main() -> None:
    readme = ROOT / "README.md"
    readme.write_text(_TABLE.sub(rendered, readme.read_text()))


if __name__ == "__main__":
    main()
