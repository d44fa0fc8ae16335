"""What is public shows itself in one readable line, and in a notebook as a table."""

import dataclasses
import enum
import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import assay
from assay.session import PlacedOrder
from consumer.jobs import read_job
from consumer.result import Result
from consumer.submit import Quote
from consumer.watch import summarise
from domain.market.queries import SimulateMatchResponse
from domain.market.records import Bid, Offer, OrderState
from domain.params import local_params
from domain.readable import LINE_MAX, Readable, in_line
from tests.unit.assay.test_session import Node, session
from tests.unit.compute_provider import support as s

CLASSES = {
    name: found
    for name in assay.__all__
    if inspect.isclass(found := getattr(assay, name))
    and not issubclass(found, enum.Enum | BaseException)
    # Protocols, and the keywords of a call: there are no objects of these.
    and name not in ("HasState", "HasTraining", "OrderOptions")
}


def is_readable(line: str) -> bool:
    return len(line) <= LINE_MAX and line.isprintable() and " at 0x" not in line and "\\x" not in line


@pytest.mark.parametrize("name", CLASSES)
def test_no_public_class_has_the_repr_of_python_or_of_a_dataclass(name: str) -> None:
    found = CLASSES[name]
    if dataclasses.is_dataclass(found) or issubclass(found, Readable):
        assert issubclass(found, Readable)
        assert found.__repr__ is Readable.__repr__
    else:
        assert found.__repr__ is not object.__repr__


class Awkward:
    """Its own ``repr`` is that of Python."""


AWKWARD = (
    bytes(range(64)),
    "two\nlines and " + "a" * 99,
    (b"\x00" * 32,) * 99,
    Awkward(),
    {number: number for number in range(99)},
    np.zeros((3, 3)),
    s.order(),
    float("nan"),
)


@pytest.mark.parametrize(
    "name",
    [name for name, found in CLASSES.items() if found.__dict__.get("__dataclass_fields__")],
)
def test_a_record_is_one_readable_line_whatever_is_in_it(name: str) -> None:
    made: Any = object.__new__(CLASSES[name])
    for turn in range(len(AWKWARD)):
        for at, field in enumerate(dataclasses.fields(made)):
            object.__setattr__(made, field.name, AWKWARD[(at + turn) % len(AWKWARD)])
        line = in_line(name, Readable.summary(made))
        assert is_readable(line), line
        assert line.startswith(f"{name}(")


BID = Bid(
    id=b"\x13" * 32,
    validator="assay1validator",
    offer=Offer(price=9 * 10**11, slot_speed=10**9, slots=2, tiers=("exact",)),
    capacity=10**15,
    expires_at=1,
    placed_height=1,
)


def looked_at(home: Path) -> dict[str, Any]:
    """Return what a person looks at, by a piece of what it shows."""
    params, node = local_params(), Node([], [OrderState.RUNNING])
    network = session(node, home)
    none: Any = None
    return {
        "price=900,000 ASSAY per PFLOP": BID,
        "state=running": s.order().order,
        "state=running, rounds=0 of": summarise(s.order()),
        "cost=": Quote(s.terms(), SimulateMatchResponse((BID,), ()), params),
        "2 bids ask more": Quote(s.terms(), SimulateMatchResponse((), (("price", 2),)), params),
        "name=tiny": read_job(s.TINY),
        "node=127.0.0.1:1": network,
        "id=111111111111…": PlacedOrder(network, s.ORDER_ID),
        "root=222222222222…": Result(
            state={}, locals=(), root=b"\x22" * 32, leg=1, round=3, validator="v", position=none
        ),
    }


def test_what_a_person_looks_at_says_what_matters(tmp_path: Path) -> None:
    for text, found in looked_at(tmp_path).items():
        assert text in repr(found), (text, repr(found))
        assert is_readable(repr(found)), repr(found)


def test_a_notebook_gets_a_table(tmp_path: Path) -> None:
    for found in looked_at(tmp_path).values():
        shown = found._repr_html_()
        assert shown.startswith(f"<table><caption>{type(found).__name__}</caption><tr><th>")
    hostile = replace(BID, validator="<script>alert(1)</script>")
    assert "<script>" not in hostile._repr_html_()


def test_an_order_in_a_notebook_says_what_it_waits_for(tmp_path: Path) -> None:
    network = session(Node([], [OrderState.RUNNING]), tmp_path)
    assert "waits for round 0 to close" in PlacedOrder(network, s.ORDER_ID)._repr_html_()
    away = session(Node([], [OrderState.RUNNING], away=1), tmp_path)
    assert "unknown: no node answers at here" in PlacedOrder(away, s.ORDER_ID)._repr_html_()
