"""What stands in for flashbench on a machine: it notes its words, gates by a file, and measures for
as many seconds as another says, as if since the time in a third. It saves a run file at its end or
at SIGTERM, as flashbench does.
"""

import json
import os
import pathlib
import shutil
import signal
import sys
import time

HOME, WORDS = pathlib.Path(os.environ["HOME"]), sys.argv[1:]


def output() -> pathlib.Path:
    return pathlib.Path(WORDS[WORDS.index("--output" if "--output" in WORDS else "--run-file") + 1])


def save(*signalled: object) -> None:
    shard = f"-{WORDS[WORDS.index('--shard') + 1][0]}" if "--shard" in WORDS else ""
    name = "profile" if WORDS[0] == "profile" else f"sample{shard}"
    shutil.copy(HOME / f"{name}.json", output())
    for subject in json.loads(output().read_bytes()).get("subjects", ()):
        output().with_name(subject["report"]).write_text("raw")
    print("a table")
    sys.exit(4 if signalled else 3)


def main() -> None:
    if WORDS[0] == "show":
        try:
            json.loads(pathlib.Path(WORDS[1]).read_bytes())
        except ValueError:
            sys.exit(2)
        return
    with (HOME / "said").open("a") as said:
        print(WORDS[0], pathlib.Path("NOTES").read_text().strip(), *WORDS[1:3], file=said)
    (HOME / "deadline").write_text(os.environ.get("FLASHBENCH_DEADLINE", ""))
    if WORDS[0] == "gate":
        sys.exit((HOME / "bad").exists())
    signal.signal(signal.SIGTERM, save)
    if (HOME / "since").exists():
        shutil.copy(HOME / "since", output().parents[1] / "measuring")
    print("flashbench: working", file=sys.stderr, flush=True)
    end = time.monotonic() + float((HOME / "seconds").read_text())
    while time.monotonic() < end:
        time.sleep(0.05)
    save()


if __name__ == "__main__":
    main()
