"""The little markdown that reference pages are made of."""

import inspect
import re
from collections.abc import Iterable, Sequence


def page(title: str, *parts: str, source: str) -> str:
    """Return a page; ``source`` says what it was written from."""
    head = f"# {title}\n\n<!-- Written by python -m tools.references from {source}. -->"
    return "\n\n".join([head, *(part.strip("\n") for part in parts if part.strip())]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; bars and line breaks in cells are escaped."""
    lines = [_row(head), _row(["---"] * len(head)), *map(_row, rows)]
    return "\n".join(lines)


def code(text: str) -> str:
    """Return inline code, or nothing for nothing."""
    return f"`{text}`" if text else ""


def prose(docstring: str) -> str:
    """Return a docstring as markdown: double backticks single, references their last name, examples as they are."""
    text = inspect.cleandoc(docstring)
    text = re.sub(r":\w+:`~?([^`]+)`", lambda found: f"`{found.group(1).split('.')[-1]}`", text)
    return text.replace("``", "`").replace("::\n", ":\n")


def first_sentence(docstring: str) -> str:
    """Return what a docstring begins with."""
    return prose(docstring).split("\n\n")[0].replace("\n", " ")


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
