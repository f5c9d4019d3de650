"""A candidate whose import takes the process down."""

import os

os.abort()
