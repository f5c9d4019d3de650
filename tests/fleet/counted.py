"""A right candidate whose workers are counted: after so many, it ends the run that uses it.

FLASHBENCH_TEST_COUNT: the file to count in; FLASHBENCH_TEST_LIMIT: how many workers may start.
Under Slurm only those of the array's second task count.
"""

import os
import signal
from pathlib import Path

from torch.nn.functional import scaled_dot_product_attention as attention

__all__ = ["attention"]

count = os.environ.get("FLASHBENCH_TEST_COUNT")
if count and os.environ.get("SLURM_ARRAY_TASK_ID", "1") == "1":
    with Path(count).open("a+") as file:
        file.write("x")
        file.seek(0)
        if len(file.read()) > int(os.environ["FLASHBENCH_TEST_LIMIT"]):
            os.kill(os.getppid(), signal.SIGKILL)
