"""What people type on the command line: numbers with units."""

import click
import pytest

from assay.cli.arguments import AMOUNT, DURATION, SIZE, TAGS, Bounded
from assay.cli.machines import MachinesShape


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (AMOUNT, "2500000uassay", 2_500_000),
        (AMOUNT, "1", 1),
        (AMOUNT, "1ASSAY", 1_000_000),
        (AMOUNT, "2.5ASSAY", 2_500_000),
        (AMOUNT, "0.000001ASSAY", 1),
        (AMOUNT, str(2**63 - 1), 2**63 - 1),
        (DURATION, "90", 90),
        (DURATION, "90s", 90),
        (DURATION, "15m", 900),
        (DURATION, "2h", 7_200),
        (DURATION, "366d", 366 * 86_400),
        (SIZE, "0", 0),
        (SIZE, "1073741824", 1 << 30),
        (SIZE, "8GiB", 8 << 30),
    ],
)
def test_numbers_with_units(kind: Bounded, text: str, value: int) -> None:
    assert kind.convert(text, None, None) == value


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        (AMOUNT, "1.5", "1.5 is not an amount"),
        (AMOUNT, "1.0000001ASSAY", "is not an amount"),
        (AMOUNT, ".5ASSAY", "write for example 2500000uassay or 2.5ASSAY"),
        (AMOUNT, "0ASSAY", "accepted are 1 to"),
        (AMOUNT, "0", "accepted are 1 to 9223372036854775807"),
        (AMOUNT, str(2**63), "out of range"),
        (DURATION, "7w", "write 90s, 15m, 2h or 7d"),
        (DURATION, "s", "is not a duration"),
        (DURATION, "367d", "out of range; accepted are 1s to 366d"),
        (DURATION, "0m", "out of range; accepted are 1s to 366d"),
        (SIZE, "1GB", "write bytes as digits, or for example 512MiB, 8GiB"),
        (SIZE, "-1", "is not a size"),
        (SIZE, "\u0661", "is not a size"),
    ],
)
def test_what_is_no_number_with_a_unit(kind: Bounded, text: str, says: str) -> None:
    with pytest.raises(click.BadParameter, match=says):
        kind.convert(text, None, None)


@pytest.mark.parametrize(("text", "shape"), [("1", 1), ("3", 3), ("64", 64), ("2x4", (2, 4)), ("3x1", (3, 1))])
def test_machines_that_train_together(text: str, shape: int | tuple[int, int]) -> None:
    assert MachinesShape().convert(text, None, None) == shape


@pytest.mark.parametrize("text", ["0", "65", "2x3", "0x2", "2x0", "2x", "x2", "9x8", "-1", "two"])
def test_machines_that_there_are_not(text: str) -> None:
    with pytest.raises(click.BadParameter, match="such as 3, or 2x4"):
        MachinesShape().convert(text, None, None)


def test_tags_are_sorted_and_single() -> None:
    assert TAGS.convert("eu, at,eu,", None, None) == ("at", "eu")
    assert TAGS.convert("", None, None) == ()
