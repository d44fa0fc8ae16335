"""What commands print: tables and lines for people, or one JSON object with ``--output json``."""

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
"""Digits of an id in tables."""
PIPED_WIDTH = 160
"""Columns of a table that goes into a file or a pipe: wide enough that ids stay in one piece."""
_WORD_SHOWN = 80
# Longer than any path or hash that a message may have to name.
_LONG_WORD = re.compile(r"\S{400,}")
stdout = Console(
    highlight=False,
    soft_wrap=True,
    width=None if sys.stdout and sys.stdout.isatty() else PIPED_WIDTH,
)
stderr = Console(stderr=True, highlight=False, soft_wrap=True)


class Output:
    """Prints in the form that ``--output`` names."""

    def __init__(self, form: str) -> None:
        """``form`` is ``text`` or ``json``."""
        self.json = form == "json"

    def note(self, text: str) -> None:
        """Say something on the way; on stderr, so that results can be piped."""
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
        """Print one item of a stream: one JSON object on a line, or a line of text."""
        if self.json:
            print(json.dumps(plain(value), separators=(",", ":")), flush=True)
        else:
            stdout.print(text, markup=False)


def plain(value: Any) -> Any:
    """Turn records, bytes and tuples inside ``value`` into JSON values; states are words, big integers strings.

    Integers beyond 2^53 lose digits in many JSON readers, so they are written as decimal strings.
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
"""Fields of records that are numbers on the chain, 0 where there is no reason."""


def _plain_field(record: Any, name: str) -> Any:
    """Return a field of a record; a reason is the word that tables show, and empty where there is none."""
    value = getattr(record, name)
    words = ShareReason if isinstance(record, Share) and name == "reason" else _REASONS.get(name)
    if words is None:
        return plain(value)
    return words(value).name.lower() if value else ""


class NarrowTable(Table):
    """A table whose rows are blocks of lines where the screen is too narrow for a word in each column."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Show the table; two columns fit any screen that can be read at all."""
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
    """Return a table for people; numbers are right-aligned."""
    made = NarrowTable(title=title, title_justify="left", header_style="bold")
    for index, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        made.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        # As texts: what a stranger wrote may look like rich's markup.
        made.add_row(*(Text(amount(cell) if isinstance(cell, int) else str(cell)) for cell in row))
    return made


def counted(number: int, noun: str) -> str:
    """Write how many there are of something whose plural ends in s: 1 round, 1,024 rounds."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def size(value: int) -> str:
    """Write bytes with a unit: 70861840 becomes 67.6 MiB."""
    for unit, bytes_ in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= bytes_:
            return f"{value / bytes_:,.1f} {unit}"
    return counted(value, "byte")


def amount(value: int) -> str:
    """Write an integer with thin separators: 1234567 becomes 1,234,567."""
    return f"{value:,}"


def money(value: int) -> str:
    """Write uassay in the unit in which people think, with the digits that matter: 1518678 becomes 1.5187 ASSAY."""
    size = abs(value)
    decimals = 2 if size >= 100 * ASSAY else 4 if size >= ASSAY else 6
    text = f"{Decimal(value) / ASSAY:,.{decimals}f}"
    return f"{text.rstrip('0').rstrip('.')} ASSAY"


def price(uassay_per_pflop: int) -> str:
    """Write a price in the one unit that prices have everywhere: 1,000,000 ASSAY per PFLOP."""
    return f"{money(uassay_per_pflop)} per PFLOP"


def moment() -> str:
    """Write the time of day here, for lines that come one after another."""
    return datetime.now().astimezone().strftime("%H:%M:%S")


def cut(text: str) -> str:
    """Return a text in which words that nobody would read to their end are cut."""
    return _LONG_WORD.sub(lambda found: f"{found[0][:_WORD_SHOWN]}…", text)


def short(value: bytes | str) -> str:
    """Shorten an id to its first 12 digits, which commands take for the whole, or an address to its two ends."""
    if isinstance(value, bytes):
        return value.hex()[:ID_SHOWN]
    return value if len(value) <= 16 else f"{value[:10]}…{value[-4:]}"


def load_line(path: Path) -> str:
    """Say in Python how a result gets into the model of its job file."""
    return f"into the model of your job file: assay.load_result(model, {str(path)!r})"


def resume_line(path: Path) -> str:
    """Say how another job goes on from a result that was written."""
    return f"go on from there: assay job build FILE.py --resume {quote(str(path))} -o DIR"


def flops(value: int) -> str:
    """Write work with a unit: FLOP, kFLOP … EFLOP."""
    size = float(value)
    for unit in ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"):
        if size < 1000:
            return f"{size:.4g} {unit}"
        size /= 1000
    return f"{size:.4g} EFLOP"


@contextmanager
def stages(output: Output) -> Iterator[Callable[[str], None]]:
    """Give what says which stage of some work begins, a line each; a terminal shows how long it has taken, too."""
    if not stderr.is_terminal:
        yield output.note
        return
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=stderr, transient=True) as shown:
        task = shown.add_task("", total=None, visible=False)

        def tell(text: str) -> None:
            output.note(text)
            shown.reset(task, description=escape(text), visible=True)

        yield tell


def byte_progress(output: Output) -> Progress:
    """Return a progress bar for bytes on stderr; hidden with ``--output json`` or without a terminal."""
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
    """Return a progress bar for steps on stderr; hidden like :func:`byte_progress`."""
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
