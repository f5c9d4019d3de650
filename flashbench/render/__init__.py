"""Renderers turn a table into text and compute no numbers."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashbench.table import Document


def render(document: "Document", output_format: str, width: int | None = None) -> str:
    """The document as text, ending in a newline. output_format: a module of this package; width: of
    the terminal, which only `text` uses."""
    module = import_module(f"flashbench.render.{output_format}")
    options = {"width": width} if output_format == "text" else {}
    text: str = module.render(document, **options)
    return text
