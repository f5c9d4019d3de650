"""asv suites: the history of the kernel against SDPA. See docs/history.md.

asv imports this package in the environment of a commit, where `flashbench` is the commit's. The
code that measures is the working tree's, as the suites are: it comes first here.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).absolute().parent.parent))
