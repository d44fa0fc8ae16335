"""Losses of several orders: those of the chain, smoothed on request, bounded, and as CSV."""

import csv
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.losses import POINTS_MAX, RUNS_MAX, smoothed, thinned
from tests.support.told_market import loss_at
from tests.unit.console.conftest import Told

Line = st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 100)), max_size=40, unique_by=lambda p: p[0])


def losses(told: Told, *orders: bytes, **more: str) -> Any:
    names = ",".join(order_id.hex()[:16] for order_id in orders)
    return told.json(f"/losses?orders={names}&" + "&".join(f"{k}={v}" for k, v in more.items()))


def test_orders_have_the_losses_that_the_chain_has(told: Told) -> None:
    page = losses(told, told.settled, told.running)
    settled, running = page["runs"]
    assert [step for step, _ in settled["points"]] == [4, 8]
    for number, (_, loss) in enumerate(settled["points"]):
        expected = (loss_at(0, number) + loss_at(1, number)) / 2
        assert loss == pytest.approx(expected, rel=1e-6)
    assert [step for step, _ in running["points"]] == [4]
    assert settled["last"] == settled["least"] < running["last"]
    assert page["chart"]["log"] is False
    assert [run["label"] for run in page["chart"]["runs"]] == [
        told.settled.hex()[:8],
        told.running.hex()[:8],
    ]


def test_what_is_asked_for_is_kept_in_links_and_bounded(told: Told) -> None:
    page = losses(told, told.settled, told.settled, scale="log", smooth="some")
    assert len(page["runs"]) == 1
    assert (page["log"], page["smooth"]) == (True, "some")
    assert told.running.hex() in {row["id"] for row in page["choices"]}
    text = told.get(f"/losses?orders={told.settled.hex()}&scale=log&smooth=much").text
    link = f"/losses?orders={told.settled.hex()}%2C{told.running.hex()}&amp;smooth=much&amp;scale=log"
    assert link in text
    many = told.json("/losses?orders=" + ",".join(["zzzz"] * 100))
    assert many["runs"] == []
    assert len(many["unknown"]) <= RUNS_MAX
    hostile = told.get("/losses?orders=<script>x</script>&smooth=<b>").text
    assert "<script>x" not in hostile
    assert "<b>" not in hostile


def test_losses_are_a_table_of_their_own(told: Told) -> None:
    answer = told.get(f"/losses.csv?orders={told.settled.hex()},{told.running.hex()[:12]}")
    assert answer.headers["content-type"].startswith("text/csv")
    assert "attachment" in answer.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(row["slot"], row["step"]) for row in rows if row["order"] == told.settled.hex()] == [
        ("0", "4"),
        ("0", "8"),
        ("1", "4"),
        ("1", "8"),
    ]
    assert float(rows[0]["loss"]) == pytest.approx(loss_at(0, 0), rel=1e-6)
    assert {row["order"] for row in rows} == {told.settled.hex(), told.running.hex()}
    assert told.get("/losses.csv").status_code == 404


@given(Line, st.floats(0, 0.99))
def test_a_smoothed_line_stays_between_its_points(line: list[tuple[int, float]], part: float) -> None:
    made = smoothed(line, part)
    assert [step for step, _ in made] == [step for step, _ in line]
    low, high = min((y for _, y in line), default=0.0), max((y for _, y in line), default=0.0)
    assert all(low - 1e-9 <= loss <= high + 1e-9 for _, loss in made)
    assert made[:1] == line[:1]
    assert smoothed(line, 0.0) == line


def test_a_long_line_is_thinned_and_keeps_its_end() -> None:
    line = [(step, float(step)) for step in range(5 * POINTS_MAX + 3)]
    made = thinned(line)
    assert len(made) <= POINTS_MAX
    assert made[-1] == line[-1]
    assert made == sorted(made)
    assert thinned([]) == []
