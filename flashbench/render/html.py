"""HTML from Jinja templates: every text is escaped, unless it is Markup."""

from collections.abc import Callable
from typing import Any

import jinja2
from markupsafe import Markup

from flashbench.outcome import Outcome
from flashbench.table import NONE


def environment(package: str, visible: Callable[[str], str]) -> jinja2.Environment:
    """The templates of a package. visible: escapes invisible characters, in case a caller forgot
    to."""

    def finalize(value: Any) -> Any:
        return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    made = jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalize,
        auto_reload=False,
    )
    made.globals |= {"none_cell": NONE, "outcomes": frozenset(outcome.value for outcome in Outcome)}
    return made
