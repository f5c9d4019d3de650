"""asv suites: the history of the kernel against SDPA. See docs/history.md.

asv imports this package in a commit's environment, where `flashbench` is the commit's. The code
that measures must be the working tree's, like the suites, so it is put first on the path here.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).absolute().parent.parent))
