"""The figures that a benchmark returns, and their output as text and JSON."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    """One figure with its case and unit.

    ``baseline`` is the figure to compare ``value`` with, in the same unit and from the same run. It is None if there is
    no such figure, as in the baseline's own row. ``goal`` is the highest acceptable ratio. ``columns`` are further
    figures, and ``details`` appear only in JSON.
    """

    case: str
    value: float
    unit: str
    baseline: float | None = None
    goal: float | None = None
    columns: Mapping[str, float | None] = field(default_factory=dict)
    details: Mapping[str, object] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """``value / baseline``; None without a baseline."""
        return self.value / self.baseline if self.baseline else None


@dataclass(frozen=True)
class Figures:
    """The figures of one benchmark.

    ``notes`` are lines of text, such as on cases that were not measured and why. ``failed`` means that a result is
    wrong on any machine; the command then exits with status 1.
    """

    name: str
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    failed: bool = False


def machine() -> str:
    """Return processor, number of usable cores, operating system and Python version in one line."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
        model = names[0] if names else model
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cores} cores, {platform.system()}, Python {platform.python_version()}"


def as_json(figures: Figures) -> dict[str, object]:
    """Return the figures as the JSON object of ``--output json``."""
    rows = [
        {
            "case": row.case,
            "value": row.value,
            "unit": row.unit,
            "baseline": row.baseline,
            "ratio": row.ratio,
            "goal": row.goal,
            **row.columns,
            **row.details,
        }
        for row in figures.rows
    ]
    return {"name": figures.name, "machine": machine(), "rows": rows, "notes": list(figures.notes)}


def as_table(figures: Figures) -> str:
    """Return the figures as a text table."""
    further = list(dict.fromkeys(name for row in figures.rows for name in row.columns))
    cells = [("case", "value", "unit", "baseline", "ratio", "goal", *further)]
    cells += [
        (
            row.case,
            _number(row.value),
            row.unit,
            _number(row.baseline),
            _number(row.ratio),
            _number(row.goal),
            *(_number(row.columns.get(name)) for name in further),
        )
        for row in figures.rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    lines = []
    for line in cells:
        parts = [
            cell.ljust(width) if column in (0, 2) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append("  ".join(parts).rstrip())
    return "\n".join([f"{figures.name} ({machine()})", *lines, *figures.notes])


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
