"""The output of commands: tables and lines for people, or one JSON object with ``--output json``."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from shlex import quote
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from domain.amount import ASSAY
from domain.legs.reasons import LegEnd
from domain.market.reasons import CloseReason
from domain.proof.reasons import ShareReason
from domain.proof.records import Share

ID_SHOWN = 12
"""Number of digits of an id that tables show."""
PIPED_WIDTH = 160
"""Width, in characters, of output to a file or a pipe; no id is so long that it would be wrapped."""
_WORD_SHOWN = 80
# Words of at least this length are cut. No path or hash in a message is that long.
_LONG_WORD = re.compile(r"\S{400,}")
stdout = Console(
    highlight=False,
    soft_wrap=True,
    width=None if sys.stdout and sys.stdout.isatty() else PIPED_WIDTH,
)
stderr = Console(stderr=True, highlight=False, soft_wrap=True)


class Output:
    """A printer of messages and results, in the form that ``--output`` names."""

    def __init__(self, form: str) -> None:
        """Store the form of results: ``text`` or ``json``."""
        self.json = form == "json"

    def note(self, text: str) -> None:
        """Print a message to stderr, so that results on stdout can be piped."""
        stderr.print(text, markup=False)

    def result(self, value: Any, text: str | Table | Sequence[str | Table]) -> None:
        """Print a result: ``value`` as JSON, or ``text`` for people."""
        if self.json:
            stdout.print_json(json.dumps(plain(value)), indent=2)
            return
        for part in [text] if isinstance(text, str | Table) else text:
            if isinstance(part, str):
                stdout.print(part, markup=False)
            else:
                stdout.print(part if part.row_count else f"{part.title}: none")

    def line(self, value: Any, text: str) -> None:
        """Print one item of a stream, as a JSON object on one line or as a line of text."""
        if self.json:
            print(json.dumps(plain(value), separators=(",", ":")), flush=True)
        else:
            stdout.print(text, markup=False)


def plain(value: Any) -> Any:
    """Return ``value`` with all records, bytes, tuples and enum members inside it converted to JSON values.

    Records become objects, bytes become hex digits, and enum members become words. Integers above 2^53 lose digits in
    many JSON readers, so they become decimal strings.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain_field(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, IntEnum):
        return value.name.lower()
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53:
        return str(int(value))
    return value


_REASONS: Mapping[str, type[IntEnum]] = {"close_reason": CloseReason, "end_reason": LegEnd}
"""Fields of records that are reasons: numbers on the chain, 0 if there is no reason."""


def _plain_field(record: Any, name: str) -> Any:
    """Return the value of a record's field as a JSON value.

    If the field is a reason, return the word that tables show, or an empty string if there is no reason.
    """
    value = getattr(record, name)
    words = ShareReason if isinstance(record, Share) and name == "reason" else _REASONS.get(name)
    if words is None:
        return plain(value)
    return words(value).name.lower() if value else ""


class NarrowTable(Table):
    """A table that shows each row as a block of lines if the screen is too narrow for all columns."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the parts of the table to print; tables of two columns are never split into blocks."""
        wide = options.update(width=sys.maxsize)
        needed = self.__rich_measure__(console, wide).minimum
        if len(self.columns) <= 2 or needed <= options.max_width:
            yield from super().__rich_console__(console, options)
            return
        yield Text(str(self.title), style="italic")
        columns = [(str(column.header), list(column.cells)) for column in self.columns]
        for row in range(self.row_count):
            yield Text("")
            for name, cells in columns:
                yield Text.assemble((f"{name}: ", "bold"), str(cells[row]))


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Return a table to print; columns that have only numbers are right-aligned.

    Columns of single words, such as addresses, keep them whole, so that only texts are wrapped.
    """
    grid = NarrowTable(title=title, title_justify="left", header_style="bold")
    for index, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        words = len(columns) > 2 and all(" " not in str(row[index]) for row in rows)
        grid.add_column(column, justify="right" if numeric else "left", overflow="fold", no_wrap=words)
    for row in rows:
        # The cells are Text objects, because a text that another user wrote may look like rich's markup.
        grid.add_row(*(Text(amount(cell) if isinstance(cell, int) else str(cell)) for cell in row))
    return grid


def counted(number: int, noun: str) -> str:
    """Return a number with a noun whose plural ends in s: 1 round, 1,024 rounds."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(value: int) -> str:
    """Return a number of bytes as text with a unit: 70861840 becomes 67.6 MiB."""
    for unit, bytes_ in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= bytes_:
            return f"{value / bytes_:,.1f} {unit}"
    return counted(value, "byte")


def amount(value: int) -> str:
    """Return an integer as text with commas: 1234567 becomes 1,234,567."""
    return f"{value:,}"


def money(value: int) -> str:
    """Return an amount of uassay as text in ASSAY, with at most six decimals: 1518678 becomes 1.5187 ASSAY."""
    size = abs(value)
    decimals = 2 if size >= 100 * ASSAY else 4 if size >= ASSAY else 6
    text = f"{Decimal(value) / ASSAY:,.{decimals}f}"
    return f"{text.rstrip('0').rstrip('.')} ASSAY"


def price(uassay_per_pflop: int) -> str:
    """Return a price (uassay per PFLOP) as text with its unit: 1,000,000 ASSAY per PFLOP."""
    return f"{money(uassay_per_pflop)} per PFLOP"


def moment() -> str:
    """Return the local time of day (HH:MM:SS) for the beginning of a printed line."""
    return datetime.now().astimezone().strftime("%H:%M:%S")


def cut(text: str) -> str:
    """Return ``text``, but with each word of 400 characters or more shortened."""
    return _LONG_WORD.sub(lambda word: f"{word[0][:_WORD_SHOWN]}…", text)


def short(value: bytes | str) -> str:
    """Return the first 12 digits of an id, which commands accept, or the two ends of an address."""
    if isinstance(value, bytes):
        return value.hex()[:ID_SHOWN]
    return value if len(value) <= 16 else f"{value[:10]}…{value[-4:]}"


def load_line(path: Path) -> str:
    """Return a line with the Python call that loads a result into the model of its job file."""
    return f"load it into the model of your job file: assay.load_result(model, {str(path)!r})"


def resume_line(path: Path) -> str:
    """Return a line with the command that builds a new job, which continues from a result."""
    return f"continue from it: assay job build FILE.py --resume {quote(str(path))} -o DIR"


def flops(value: int) -> str:
    """Return an amount of work (FLOPs) as text, with a unit from FLOP to EFLOP."""
    size = float(value)
    for unit in ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"):
        if size < 1000:
            return f"{size:.4g} {unit}"
        size /= 1000
    return f"{size:.4g} EFLOP"


@contextmanager
def stages(output: Output) -> Iterator[Callable[[str], None]]:
    """Yield a function to call with a text when a stage of work begins.

    The function prints the text. A terminal also shows the time that the stage has taken.
    """
    if not stderr.is_terminal:
        yield output.note
        return
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=stderr, transient=True) as shown:
        task = shown.add_task("", total=None, visible=False)

        def begin_stage(text: str) -> None:
            output.note(text)
            shown.reset(task, description=escape(text), visible=True)

        yield begin_stage


def byte_progress(output: Output) -> Progress:
    """Return a progress bar for bytes on stderr; it is hidden with ``--output json`` or without a terminal."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeElapsedColumn(),
        console=stderr,
        transient=True,
        disable=output.json or not stderr.is_terminal,
    )


def step_progress(output: Output) -> Progress:
    """Return a progress bar for steps on stderr; it is hidden with ``--output json`` or without a terminal."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        TimeElapsedColumn(),
        console=stderr,
        transient=True,
        disable=output.json or not stderr.is_terminal,
    )
