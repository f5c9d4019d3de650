"""Whether an error of a candidate's first call says "not supported" rather than "broken".

Kernels guard what they do not take by TORCH_CHECK, an assertion or a signature, which raise what
broken code raises too: the words decide.
"""

import re

_GUARDS = (RuntimeError, ValueError, AssertionError, TypeError)
_SAYS_SO = re.compile(
    r"\b(un)?support(s|ed)?\b|\bnot implemented\b|\bmust (be|have|equal|match)\b|\bonly\b|"
    r"\brequires?\b|\bexpect(s|ed)\b|\bhead_?\s?dim|\bd(ata)? ?types?\b|\bscalar type\b|"
    r"\bb?float(16|32|64)?\b|\bhalf\b|\b[bf]?[fp]16\b|"
    r"unexpected keyword argument",
    re.IGNORECASE,
)
# A device or library failed, whatever else the message says.
_BROKEN = re.compile(
    r"CUDA error|cu(blas|dnn|solver)|CUDA driver|out of memory|INTERNAL ASSERT|shapes cannot be|"
    r"same device|illegal|misaligned|size of tensor",
    re.IGNORECASE,
)


def is_guard(error: BaseException) -> bool:
    """Whether a guard at a kernel's entry raised it, by its words."""
    text = str(error)
    return (
        isinstance(error, _GUARDS)
        and _SAYS_SO.search(text) is not None
        and _BROKEN.search(text) is None
    )
