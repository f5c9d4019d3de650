"""How a function to measure and what it computes are named: `module:function`, our own, and the
built-in operations. Needs Python alone, as preflight does."""

import re

OURS = "flashbench"
OUR_CALLABLE = "flashbench:attention"  # the same as a function, of any revision
OPERATIONS = ("attention", "rms-norm", "layer-norm", "softmax", "matmul")  # the first by default
_SPEC = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def is_function(text: str) -> bool:
    """Whether the text has the form `module:function`."""
    return _SPEC.fullmatch(text) is not None
