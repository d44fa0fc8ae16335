"""The form of a quote: decimals to the last coin and FLOP, what is no number, and the numbers of a job."""

from pathlib import Path

import pytest

from console.errors import ConsoleError
from console.quotes import FIELDS, read_form
from console.rows import Query
from consumer.jobs import read_job
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
        ("pays", "0.0000001", "more digits behind the point"),
        ("rounds", "1.5", "more digits behind the point"),
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
    """What pays the cheapest bid to the coin meets it, and what pays a thousandth less meets nobody."""
    cost = int(told.json(ASKED)["quote"]["candidates"][0]["cost"])
    for pays, count in ((cost, 1), (cost - 1_000, 0)):
        exact = f"{pays // 10**6}.{pays % 10**6:06}"
        found = told.json(f"{ASKED}&pays={exact}")
        assert found["form"]["pays"] == exact
        assert found["quote"]["error"] == ""
        assert len(found["quote"]["candidates"]) == count
    assert "a lot is not a number" in told.json(f"{ASKED}&pays=a lot")["quote"]["error"]


def test_the_numbers_of_a_job_are_those_that_its_order_would_have() -> None:
    job = read_job(JOB)
    form = read_form(Query({}), job)
    assert FIELD["work"].read(form["work"]) == job.document.step_flops
    assert FIELD["outer"].read(form["outer"]) == job.document.outer_flops
    size = FIELD["files"].read(form["files"])
    assert job.payload_size <= size <= job.payload_size + 1
