"""How a function to measure, what it computes and its cases are named: `module:function`, our own,
the built-in operations, and what settings may say of cases. Needs Python alone, as preflight
does."""

import re

OURS = "flashbench"
OUR_CALLABLE = "flashbench:attention"  # the same as a function, of any revision
OPERATIONS = (  # the first by default
    "attention",
    "attention-backward",
    "attention-forward-backward",
    "rms-norm",
    "layer-norm",
    "softmax",
    "matmul",
)
MASK_REQUESTS = ("both", "causal", "full", "bottom_right")
# In which order q, k, v lie in memory; their dimensions are those of the first all the same.
LAYOUTS = ("bhsd", "bshd", "sbhd")
_SPEC = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def is_function(text: str) -> bool:
    """Whether the text has the form `module:function`."""
    return _SPEC.fullmatch(text) is not None
