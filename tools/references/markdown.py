"""The parts of markdown that the reference pages use."""

import inspect
import re
from collections.abc import Iterable, Sequence


def page(title: str, *parts: str, source: str) -> str:
    """Return a page with a title and parts. A comment in it names ``source``, the code that it was written from."""
    head = f"# {title}\n\n<!-- Written by python -m tools.references from {source}. -->"
    return "\n\n".join([head, *(part.strip("\n") for part in parts if part.strip())]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a markdown table. In its cells, bars are escaped and line breaks become spaces."""
    lines = [_row(head), _row(["---"] * len(head)), *map(_row, rows)]
    return "\n".join(lines)


def code(text: str) -> str:
    """Return a text as inline code, or an empty text unchanged."""
    return f"`{text}`" if text else ""


def prose(docstring: str) -> str:
    """Return a docstring as markdown.

    Double backticks become single ones. A reference to a function or class becomes its last name, as code.
    """
    text = inspect.cleandoc(docstring)
    text = re.sub(r":\w+:`~?([^`]+)`", lambda reference: f"`{reference.group(1).split('.')[-1]}`", text)
    return text.replace("``", "`").replace("::\n", ":\n")


def first_sentence(docstring: str) -> str:
    """Return the first paragraph of a docstring as one line of markdown."""
    return prose(docstring).split("\n\n")[0].replace("\n", " ")


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
