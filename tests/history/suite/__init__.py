"""An asv suite that tells which library was loaded: it needs no torch and no clock."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).absolute().parent.parent))
