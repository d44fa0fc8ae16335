"""The pictures and the page of the states of orders, legs, rounds and panels, from the tables that the chain uses."""

import textwrap
from collections.abc import Mapping
from enum import Enum
from html import escape
from types import MappingProxyType
from typing import Any

from domain.legs.transitions import LEG_STEPS
from domain.market.transitions import ORDER_STEPS
from domain.proof.transitions import PANEL_STEPS, ROUND_STEPS
from domain.transitions import Transitions
from tools.references.markdown import page, table

STATES: Mapping[str, Transitions[Any]] = MappingProxyType(
    {steps.what: steps for steps in (ORDER_STEPS, LEG_STEPS, ROUND_STEPS, PANEL_STEPS)}
)
"""The tables of steps, by the word for a record."""

_COLUMN, _LEFT, _TOP, _LINE = 190, 130, 66, 17
_LETTER = 6.9
"""The mean width of a letter, to wrap texts and to place them on a plain ground."""
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#24292f;text-anchor:middle}.w{font-weight:600;font-size:14px}"
    ".b{fill:#eaf2ee;stroke:#2f6f55}.l{stroke:#b7c2bc;stroke-dasharray:3 4}.a{stroke:#2f6f55;stroke-width:1.6}"
    ".h{fill:#2f6f55}.g{fill:#fff}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.b{fill:#17352a;stroke:#6fc3a0}"
    ".l{stroke:#4b5a53}.a{stroke:#6fc3a0}.h{fill:#6fc3a0}.g{fill:#0d1117}}"
)


def picture(what: str) -> str:
    """Return the picture of a table as SVG: a column for each state, a row for each group of steps, top to bottom."""
    steps = STATES[what]
    at = {state: _LEFT + number * _COLUMN for number, state in enumerate(steps.states)}
    width = max(at.values()) + _COLUMN // 2 + 10
    rows: list[str] = []
    y = _TOP
    for words, before, after in steps.lines():
        ends = [at[state] for state in before] or [_LEFT - 100]
        target = at[after] if after is not None else _LEFT - 100
        lines = textwrap.wrap(words, max(26, int(abs(target - ends[0]) / _LETTER) - 2))
        y += _LINE * len(lines) + 26
        rows += [*_label(lines, (ends[0] + target) // 2, y, width), *_arrow(ends, target, y)]
    height = y + 24
    heads = [
        f'<path class="l" d="M{x} 48V{height - 8}"/>'
        f'<rect class="b" x="{x - 70}" y="14" width="140" height="34" rx="6"/>'
        f'<text class="w" x="{x}" y="36">{_word(state)}</text>'
        for state, x in at.items()
    ]
    told = "; ".join(f"{words}: {_told(before)} to {_word(after)}" for words, before, after in steps.lines())
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="t d">',
            "<!-- Written by python -m tools.references. -->",
            f'<title id="t">The states of {_article(what)}</title>',
            f'<desc id="d">{escape(told)}</desc>',
            f"<style>{_STYLE}</style>",
            f'<rect class="g" width="{width}" height="{height}"/>',
            *heads,
            *rows,
            "</svg>\n",
        ]
    )


def states_page() -> str:
    """Return the page on states."""
    parts: list[str] = []
    for what, steps in STATES.items():
        rows = [(words, _told(before), _word(after)) for words, before, after in steps.lines()]
        parts += [
            f"## {_article(what).capitalize()}",
            f"![The states of {_article(what)}](../images/states-{what}.svg)",
            table(("step", "from", "to"), rows),
        ]
    return page(
        "States",
        "The chain takes each new state from these tables. A step that a table does not have is impossible. When each"
        " step happens is said in [The protocol](../protocol.md#the-order). Steps in small letters with underscores are"
        " [reason codes](reasons.md).",
        *parts,
        source="the tables of transitions in domain/",
    )


def _label(lines: list[str], x: int, y: int, width: int) -> list[str]:
    wide = int(max(map(len, lines)) * _LETTER) + 10
    x = max(wide // 2 + 4, min(x, width - wide // 2 - 4))
    top = y - 8 - _LINE * len(lines)
    ground = f'<rect class="g" x="{x - wide // 2}" y="{top}" width="{wide}" height="{_LINE * len(lines) + 2}"/>'
    texts = [
        f'<text x="{x}" y="{top + 13 + _LINE * number}">{escape(line)}</text>' for number, line in enumerate(lines)
    ]
    return [ground, *texts]


def _arrow(ends: list[int], target: int, y: int) -> list[str]:
    found = [f'<circle class="h" cx="{x}" cy="{y}" r="4"/>' for x in ends]
    for side, far in ((-1, min(ends)), (1, max(ends))):
        if side * (far - target) > 0:
            tip = target + 10 * side
            found += [
                f'<path class="a" d="M{far} {y}H{target + 8 * side}"/>',
                f'<path class="h" d="M{target} {y}L{tip} {y - 5}V{y + 5}z"/>',
            ]
    return found


def _word(state: Enum | None) -> str:
    return "nothing" if state is None else state.name.lower()


def _told(before: tuple[Enum, ...]) -> str:
    return ", ".join(map(_word, before)) or "nothing"


def _article(what: str) -> str:
    return f"an {what}" if what[0] in "aeiou" else f"a {what}"
