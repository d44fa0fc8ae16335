"""The form of a quote: decimals to the last coin and FLOP, what is no number, and the numbers of a job."""

from pathlib import Path

import pytest

from console.costs import cost_of, limit_of
from console.errors import ConsoleError
from console.quotes import FIELDS, read_form
from console.rows import PageQuery
from consumer.jobs import read_job
from consumer.submit import audits_beside
from domain.amount import price_ceil
from pol.rules.schedule import total_work
from pol.rules.tiers.table import highest_floor
from tests.support.chain_market import ANY, PRICE, make_terms
from tests.unit.console.conftest import Told

JOB = Path(__file__).parents[2] / "fixtures" / "job_tiny"
FIELD = {field.name: field for field in FIELDS}
ASKED = "/book?rounds=3&slots=2&steps=10&segment=5&work=1000"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("pays", "0.000001", 1),
        ("pays", "9223372036854.775807", 2**63 - 1),
        ("pays", ".5", 500_000),
        ("work", "16.089655", 16_089_655),
        ("work", "123456789012345678.9", 123_456_789_012_345_678_900_000),
        ("state", "0.1", 103),
        ("rounds", "7", 7),
    ],
)
def test_decimals_are_read_without_rounding_down(name: str, text: str, value: int) -> None:
    assert FIELD[name].read(text) == value


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("pays", "0.0000001", "too many decimal places"),
        ("rounds", "1.5", "too many decimal places"),
        ("work", "1e5", "1e5 is not a number"),
        ("work", "-1", "-1 is not a number"),
        ("work", ".", ". is not a number"),
        ("pays", "", "nothing is not a number"),
        ("minutes", "١", "is not a number"),
        ("memory", "9" * 25, "is not a number"),
    ],
)
def test_what_is_no_such_number_is_refused_with_its_name(name: str, text: str, why: str) -> None:
    with pytest.raises(ConsoleError, match=why) as refused:
        FIELD[name].read(text)
    assert FIELD[name].label in str(refused.value)


def test_a_limit_below_one_assay_is_a_limit(told: Told) -> None:
    """No bid is shown whose cost, audits with it, is above what was asked for."""
    whole = int(told.json(ASKED)["quote"]["candidates"][0]["cost"])
    for pays, is_enough in ((whole, True), (whole // 4, False)):
        exact = f"{pays // 10**6}.{pays % 10**6:06}"
        found = told.json(f"{ASKED}&pays={exact}")
        assert found["form"]["pays"] == exact
        assert found["quote"]["error"] == ""
        costs = [int(bid["cost"]) for bid in found["quote"]["candidates"]]
        assert bool(costs) is is_enough
        assert all(cost <= pays + 4 for cost in costs)
    assert "a lot is not a number" in told.json(f"{ASKED}&pays=a lot")["quote"]["error"]


@pytest.mark.parametrize("price", [1_000, PRICE, 7 * PRICE + 1])
def test_the_limit_that_a_sum_pays_is_the_highest(told: Told, price: int) -> None:
    terms, params = make_terms(), told.console.known.snapshot.params
    sum_of = cost_of(terms, ANY, price, price, params)
    assert limit_of(terms, ANY, sum_of, params) >= price
    assert limit_of(terms, ANY, sum_of - 2 * (terms.rounds + 1), params) < price
    assert sum_of > price_ceil(total_work(terms), price)


def test_the_cost_of_an_order_is_that_of_its_quote_and_what_it_pays_in_the_end(told: Told) -> None:
    """One word and one sum: in lists, on the order's page, and as money that left the deposit."""
    params = told.console.known.snapshot.params
    assert params is not None
    rows = {row["id"]: row for row in told.json("/orders")["orders"]}
    for order_id in (told.settled, told.running):
        row, page = rows[order_id.hex()], told.json(f"/orders/{order_id.hex()}")
        assert row["cost"] == page["cost"] > 0
        assert row["paid"] == page["paid"] <= row["cost"]
        order = told.market.all_of(order_id).order
        floor = highest_floor((), order.terms, order.price_limit, params.for_order())
        quoted = price_ceil(total_work(order.terms), page["price"])
        quoted += audits_beside(order.terms, page["price"], floor, params)
        # The price of each round is rounded down, where a quote rounds up.
        assert 0 <= quoted - row["cost"] <= order.terms.rounds
    paid = told.market.all_of(told.settled).escrow.depositors[0].paid
    page = told.json(f"/orders/{told.settled.hex()}")
    assert page["cost"] == page["paid"] == paid == sum(found["cost"] for found in page["grid"])
    assert rows[told.waiting.hex()]["cost"] == 0


def test_the_numbers_of_a_job_are_those_that_its_order_would_have() -> None:
    job = read_job(JOB)
    form = read_form(PageQuery({}), job)
    assert FIELD["work"].read(form["work"]) == job.document.step_flops
    assert FIELD["outer"].read(form["outer"]) == job.document.outer_flops
    size = FIELD["files"].read(form["files"])
    assert job.payload_size <= size <= job.payload_size + 1
