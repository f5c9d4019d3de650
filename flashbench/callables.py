"""How a function to measure is named: `module:function`, and our own."""

import re

OURS = "flashbench"
OUR_CALLABLE = "flashbench:attention"  # the same as a function, of any revision
_SPEC = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def is_function(text: str) -> bool:
    """Whether the text has the form `module:function`."""
    return _SPEC.fullmatch(text) is not None
