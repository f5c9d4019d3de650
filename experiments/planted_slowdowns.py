"""Plant slowdowns of known size in our own kernels, and compare them as a user would.

    python experiments/planted_slowdowns.py --device cpu -- --preset small --budget 300s

Makes a git repository of this source tree whose revisions wait at the end of each call (CPU) or
block (CUDA) for a share of its duration, and runs `flashbench compare` on each: an equal build,
then 1, 2, 5 and 10 % slower. Arguments after `--` go to `flashbench compare`.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ("csrc", "flashbench", "build_support", "setup.py", "pyproject.toml", "README.md")
SHARES = (0, 1, 2, 5, 10)

Edits = tuple[str, Sequence[tuple[str, str]]]

CPU = (
    "csrc/cpu/dispatch.cpp",
    (
        ("namespace flashbench {", "#include <chrono>\nnamespace flashbench {"),
        (
            "    run_parallel(threads, static_cast<int>(std::min<int64_t>(useful, ",
            "    const auto began = std::chrono::steady_clock::now();\n"
            "    run_parallel(threads, static_cast<int>(std::min<int64_t>(useful, ",
        ),
        (
            "tasks.size())), work_on, &job);\n",
            "tasks.size())), work_on, &job);\n"
            "    const auto took = std::chrono::steady_clock::now() - began;\n"
            "    while (std::chrono::steady_clock::now() - began < took * (1 + PLANTED)) {\n"
            "    }\n",
        ),
    ),
)
# One kernel computes everything, in the base revision too, so that the delay affects all cases.
CUDA_ALWAYS = (
    "csrc/cuda/families.h",
    (("compute_capability != 90 ||", "compute_capability != 0 ||"),),
)
CUDA = (
    "csrc/cuda/sm80/kernel.h",
    (
        (
            "    using T = typename Tile::Type;\n    constexpr int kHeadDim",
            "    const long long began = clock64();\n"
            "    using T = typename Tile::Type;\n    constexpr int kHeadDim",
        ),
        (
            "        part.finish(out, end_key == 0);\n    }\n",
            "        part.finish(out, end_key == 0);\n    }\n"
            "    const auto took = static_cast<float>(clock64() - began);\n"
            "    while (static_cast<float>(clock64() - began) < took * (1 + PLANTED)) {\n"
            "    }\n",
        ),
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--keep", type=Path, help="directory for the run files")
    parser.add_argument("--work", type=Path, help="directory for the repository and its builds")
    parser.add_argument("compare", nargs="*", help="options of `flashbench compare`")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        keep = options.keep or work / "results"
        keep.mkdir(parents=True, exist_ok=True)
        repository = work / "repository"
        if options.device == "cuda":
            plant(repository, CUDA, CUDA_ALWAYS)
        else:
            plant(repository, CPU)
        print("| slower by % | SLOWER | SAME | UNDECIDED | FASTER | other | launches a case "
              "| device s |\n|---|---|---|---|---|---|---|---|")  # fmt: skip
        for share in SHARES:
            document = compare(repository, share, options, keep, work / "cache")
            rows = document["rows"]
            counts = Counter(row["verdict"] for row in rows)
            named = ("SLOWER", "SAME", "UNDECIDED", "FASTER")
            other = len(rows) - sum(counts[name] for name in named)
            launches = sum(row["launches"] for row in rows) / len(rows)
            cells = [share, *(counts[name] for name in named), other, f"{launches:.1f}"]
            cells.append(f"{document['summary']['device_seconds']:.0f}")
            print("|", " | ".join(map(str, cells)), "|", flush=True)


def plant(repository: Path, edits: Edits, always: Edits | None = None) -> None:
    """A repository with the tags `base` and slower-0, slower-1 ... (in percent).

    always: edits of all revisions.
    """
    repository.mkdir(parents=True)
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("_C*", "_build.json", "__pycache__")
            shutil.copytree(source, repository / name, ignore=ignored)
        else:
            shutil.copy2(source, repository / name)
    git(repository, "init", "-q", "-b", "main")
    if always is not None:
        (repository / always[0]).write_text(edited(repository, always))
    name, replacements = edits
    original = (repository / name).read_text()
    commit(repository, "As it is", "base")
    for share in SHARES:
        slowed = [(old, new.replace("PLANTED", f"{share / 100}f")) for old, new in replacements]
        (repository / name).write_text(original)
        text = edited(repository, (name, slowed)) if share else f"{original}// the same\n"
        (repository / name).write_text(text)
        commit(repository, f"Slower by {share} %", f"slower-{share}")


def edited(repository: Path, edits: Edits) -> str:
    name, replacements = edits
    text = (repository / name).read_text()
    for old, new in replacements:
        if text.count(old) != 1:
            sys.exit(f"{name} has changed: cannot plant a delay at {old.strip()[:60]!r}")
        text = text.replace(old, new)
    return text


def commit(repository: Path, message: str, tag: str) -> None:
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", message)
    git(repository, "tag", tag)


def git(repository: Path, *arguments: str) -> None:
    who = ("-c", "user.name=Planter", "-c", "user.email=planter@example.org")
    subprocess.run(["git", "-C", str(repository), *who, *arguments], check=True)


def compare(
    repository: Path, share: int, options: argparse.Namespace, keep: Path, cache: Path
) -> dict[str, object]:
    file = keep / f"planted-{options.device}-{share}.json"
    command = [sys.executable, "-m", "flashbench", "compare", "base", f"slower-{share}"]
    command += ["--device", options.device, "--format", "json", "--run-file", str(file)]
    environment = {"PYTHONPATH": str(ROOT), "FLASHBENCH_CACHE": str(cache)}
    if options.device == "cpu":
        environment["FLASHBENCH_CUDA"] = "OFF"
    done = subprocess.run(
        [*command, *options.compare],
        cwd=repository,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode not in (0, 1, 3):
        sys.exit(f"slower by {share} %: exit code {done.returncode}")
    return json.loads(done.stdout)


if __name__ == "__main__":
    main()
