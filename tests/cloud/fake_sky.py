#!/usr/bin/env python3
"""What stands in for `sky`: notes its words, and lets the machine of tests be the rented one.

In $FAKE_SKY: `fail` holds a word of commands that fail, saying what it says after that word; `home`
names the home directory of the machine.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

here, words = Path(os.environ["FAKE_SKY"]), sys.argv[1:]
with (here / "said").open("a") as said:
    print(*(Path(word).name for word in words), file=said)
if (here / "fail").exists():
    word, _, message = (here / "fail").read_text().partition(" ")
    if any(word in one for one in words):
        print(message)
        sys.exit(1)
if words[0] == "launch" and "--dryrun" in words:
    print("Considered resources (1 node): $4.00")
elif words[0] == "launch" and (here / "home").exists():
    home = Path((here / "home").read_text())
    task = Path(words[-1]).read_text()
    (workdir,) = re.findall(r'^workdir: "(.*)"$', task, re.M) or [""]
    if workdir:
        shutil.copytree(workdir, home / "sky_workdir", dirs_exist_ok=True)
    with (home / "log").open("a") as log:
        process = subprocess.Popen(
            ["sh", "-c", task.partition("run: |\n")[2]],
            cwd=home / "sky_workdir" if workdir else home,
            env=os.environ
            | {"HOME": str(home), "PATH": f"{home.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"},
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    if not workdir:
        process.wait()  # the machine's jobs come one after another
