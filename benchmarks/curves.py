"""Loss curves as SVG files, whose bytes are the same in every run."""

import re
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Curve = Sequence[tuple[int, float]]
Curves = Mapping[tuple[str, float], Sequence[Curve]]
"""Curves by name and learning rate, one per seed."""
_PATH = re.compile(r' d="[^"]*"')
_DIGITS = re.compile(r"(?<=\.\d)\d+|(?<= )\n")
"""Digits of a path that are too small to be visible, and its line breaks; both are removed."""
COLOURS = ("#000000", "#9a9a9a", "#0072b2", "#d55e00", "#009e73", "#cc79a7")


def draw(curves: Curves, path: Path) -> None:
    """Draw a column per learning rate, with the mean curves on top and the differences from the first name below.

    Means are over the seeds, and differences are between curves of the same seed.

    Bands show the minimum and maximum over the seeds. The background is white, also on dark pages.
    """
    names = list(dict.fromkeys(name for name, _ in curves))
    rates = list(dict.fromkeys(rate for _, rate in curves))
    # The SVG has text instead of outlines, and its element ids are the same in every run.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "assay", "font.size": 9}):
        figure = Figure(figsize=(3.6 * len(rates), 5.6), layout="constrained")
        rows = figure.subplots(2, len(rates), sharex=True, sharey="row", squeeze=False)
        for column, rate in enumerate(rates):
            plain = curves[names[0], rate]
            for name, colour in zip(names, COLOURS, strict=False):
                runs = curves[name, rate]
                _lines(rows[0][column], runs, name, colour)
                _lines(rows[1][column], _differences(runs, plain), name, colour)
            rows[0][column].set_title(f"learning rate {rate:g}")
            rows[1][column].set_xlabel("steps")
        rows[0][0].set_ylabel("training loss (nats)")
        rows[1][0].set_ylabel(f"difference from {names[0]}")
        figure.legend(*rows[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
        drawn = StringIO()
        figure.savefig(drawn, format="svg", facecolor="white", metadata={"Date": None})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_PATH.sub(lambda match: _DIGITS.sub("", match[0]), drawn.getvalue()))


def _differences(curves: Sequence[Curve], plain: Sequence[Curve]) -> list[Curve]:
    return [
        [(step, value - other) for (step, value), (_, other) in zip(one, same, strict=True)]
        for one, same in zip(curves, plain, strict=True)
    ]


def _lines(axes: Axes, curves: Sequence[Curve], name: str, colour: str) -> None:
    steps = [step for step, _ in curves[0]]
    values = [[value for _, value in points] for points in zip(*curves, strict=True)]
    means = [sum(at_step) / len(at_step) for at_step in values]
    axes.plot(steps, means, color=colour, linewidth=1.2, label=name)
    axes.fill_between(
        steps,
        [min(at_step) for at_step in values],
        [max(at_step) for at_step in values],
        color=colour,
        alpha=0.15,
        linewidth=0,
    )
    axes.grid(alpha=0.3)
