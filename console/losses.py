"""The losses of several orders in one chart, optionally smoothed, and the same numbers as CSV."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from console import words
from console.errors import NotThere
from console.index.writing import EventIndex
from console.order import points_of
from console.rows import PageQuery
from console.story import OrderStory
from domain.market.records import OrderState

RUNS_MAX: Final = 8
POINTS_MAX: Final = 2_000
"""Maximum number of points of a line; longer lines are thinned evenly."""
CSV_ROWS_MAX: Final = 200_000
SMOOTHING: Final = {"none": 0.0, "some": 0.6, "much": 0.9}
"""Weight of the previous mean in each point (exponential moving average), by name."""
CHOICES: Final = 20
"""Number of orders offered to add, the newest first."""

Points = Mapping[int, Mapping[int, float]]
"""Losses by slot, then by step."""


def show_losses(
    index: EventIndex,
    find_order: Callable[[str], bytes],
    story_of: Callable[[bytes], OrderStory],
    query: PageQuery,
) -> dict[str, Any]:
    """Return the data of the page of losses: mean losses of the query's orders, and orders that the user can add."""
    ids, unknown = read_orders(find_order, query)
    smooth = query.text("smooth") if query.text("smooth") in SMOOTHING else "none"
    log = query.text("scale") == "log"
    runs: list[dict[str, Any]] = []
    for order_id in ids:
        story = story_of(order_id)
        name = index.job_name(story.order.terms.job_id)
        means = mean_of(story, points(index, story))
        last = means[-1][1] if means else None
        drawn = smoothed(thinned(means), SMOOTHING[smooth])
        runs.append(
            {
                "id": order_id.hex(),
                "job_name": name,
                "status": words.order_state(story.state, story.close_reason),
                "rounds": story.order.terms.rounds,
                "closed": story.current.closed if story.current else 0,
                "last": last,
                "least": min((loss for _, loss in means), default=None),
                "points": drawn,
            }
        )
    rows, _ = index.orders(limit=CHOICES)
    return {
        "runs": runs,
        "unknown": unknown,
        "smooth": smooth,
        "smoothing": list(SMOOTHING),
        "log": log,
        "full": len(ids) >= RUNS_MAX,
        "chart": {
            "log": log,
            "runs": [
                {"label": _label(run["id"], run["job_name"]), "points": run["points"]} for run in runs if run["points"]
            ],
        },
        "choices": [
            {
                "id": row.order_id.hex(),
                "job_name": index.job_name(row.job_id),
                "status": words.order_state(row.state, row.reason),
                "closed": row.closed,
                "rounds": row.rounds,
            }
            for row in rows
            if row.order_id not in ids and row.state > OrderState.MATCHED
        ],
    }


def read_orders(find_order: Callable[[str], bytes], query: PageQuery) -> tuple[list[bytes], list[str]]:
    """Return the ids of the orders in the query's list ``orders``, and the entries that name no known order.

    Commas separate the entries; an entry is an order's id or its first digits.
    """
    known: dict[bytes, None] = {}
    unknown = []
    for text in query.text("orders", 1_000).split(","):
        if not (name := text.strip()):
            continue
        try:
            known[find_order(name)] = None
        except NotThere:
            unknown.append(words.cut(name, 24))
    return list(known)[:RUNS_MAX], unknown[:RUNS_MAX]


def points(index: EventIndex, story: OrderStory) -> Points:
    """Return the losses of an order by slot and step. If several legs trained a step, the last leg's loss counts."""
    by_slot: dict[int, dict[int, float]] = {}
    for leg in story.legs.values():
        traces = index.traces(story.order.id, leg.number)
        for slot, steps in points_of(leg, story.order.terms, traces).items():
            by_slot.setdefault(slot, {}).update(steps)
    return by_slot


def mean_of(story: OrderStory, by_slot: Points) -> list[tuple[int, float]]:
    """Return the mean loss over all slots, at each step at which all slots have a loss."""
    steps = sorted({step for by_step in by_slot.values() for step in by_step})
    means = []
    for step in steps:
        losses = [by_step[step] for by_step in by_slot.values() if step in by_step]
        if len(losses) == story.order.terms.slots:
            means.append((step, sum(losses) / len(losses)))
    return means


def thinned(line: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return at most ``POINTS_MAX`` points of a line, evenly spread and including the last one."""
    every = -(-len(line) // POINTS_MAX) or 1
    return line[::-1][::every][::-1]


def smoothed(line: list[tuple[int, float]], part: float) -> list[tuple[int, float]]:
    """Return the exponential moving average of a line, with ``part`` as the weight of the previous mean."""
    mean = None
    means = []
    for step, loss in line:
        mean = loss if mean is None else part * mean + (1 - part) * loss
        means.append((step, mean))
    return means


def csv_lines(index: EventIndex, stories: list[OrderStory]) -> Iterator[str]:
    """Yield the lines of a CSV table of all losses of the orders, not smoothed, sorted by slot and step."""
    yield "order,slot,step,loss\n"
    count = 0
    for story in stories:
        name = story.order.id.hex()
        for slot, by_step in sorted(points(index, story).items()):
            for step in sorted(by_step):
                if count == CSV_ROWS_MAX:
                    return
                count += 1
                yield f"{name},{slot},{step},{by_step[step]!r}\n"


def _label(order_id: str, name: str) -> str:
    return f"{words.cut(name, 24)} {order_id[:8]}".strip()
