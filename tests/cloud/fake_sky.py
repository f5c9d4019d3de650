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
elif words[0] == "launch" and words[-1].endswith("task.yaml"):
    home = Path((here / "home").read_text())
    (payload,) = re.findall(r'^workdir: "(.*)"$', Path(words[-1]).read_text(), re.M)
    shutil.copytree(payload, home / "sky_workdir", dirs_exist_ok=True)
    with (home / "log").open("a") as log:
        subprocess.Popen(
            ["bash", "./job.sh"],
            cwd=home / "sky_workdir",
            env=os.environ | {"HOME": str(home)},
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
