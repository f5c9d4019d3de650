"""Renderers turn a table into text and compute no numbers."""

from importlib import import_module
from typing import TYPE_CHECKING

from flashbench.render.terminal import Terminal

if TYPE_CHECKING:
    from flashbench.table import Document


def render(document: "Document", output_format: str, terminal: Terminal | None = None) -> str:
    """The document as text ending in a newline; output_format: a module of this package; terminal:
    what shows it, for the format that looks at that."""
    module = import_module(f"flashbench.render.{output_format}")
    options = {"terminal": terminal or Terminal()} if output_format == "text" else {}
    text: str = module.render(document, **options)
    return text
