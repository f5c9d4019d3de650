"""A right candidate whose workers are counted: after so many, it ends the run that uses it."""

import os
import signal
from pathlib import Path

from torch.nn.functional import scaled_dot_product_attention as attention

__all__ = ["attention"]

if count := os.environ.get("FLASHBENCH_TEST_COUNT"):
    with Path(count).open("a+") as file:
        file.write("x")
        file.seek(0)
        if len(file.read()) > int(os.environ["FLASHBENCH_TEST_LIMIT"]):
            os.kill(os.getppid(), signal.SIGKILL)
