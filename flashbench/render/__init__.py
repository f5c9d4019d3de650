"""Renderers: a table in, text out. None of them computes a number."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashbench.table import Document


def render(document: "Document", output_format: str) -> str:
    """The document as text ending in a newline; output_format: a module of this package."""
    text: str = import_module(f"flashbench.render.{output_format}").render(document)
    return text
