"""Types of numpy arrays."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]  # also of indices: numpy's intp is int64 on 64 bits
BoolArray = NDArray[np.bool_]
