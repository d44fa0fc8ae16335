"""Numbers and texts as people see them."""

import pytest

from assay.cli.output import cut, money
from tests.unit.assay.support import assay


@pytest.mark.parametrize(
    ("uassay", "text"),
    [
        (0, "0 ASSAY"),
        (1, "0.000001 ASSAY"),
        (-250_000, "-0.25 ASSAY"),
        (1_518_678, "1.5187 ASSAY"),
        (24_420_794_273, "24,420.79 ASSAY"),
        (900_000_000_000, "900,000 ASSAY"),
        (2**63 - 1, "9,223,372,036,854.78 ASSAY"),
    ],
)
def test_money_has_the_digits_that_matter(uassay: int, text: str) -> None:
    assert money(uassay) == text


def test_what_nobody_reads_is_cut() -> None:
    assert cut(f"no key named {'x' * 5000} here") == f"no key named {'x' * 80}… here"
    assert cut("/a/path" * 50) == "/a/path" * 50


@pytest.mark.parametrize("words", [["keys", "add"], ["quote"], ["order", "show"], ["logs"], []])
@pytest.mark.parametrize("form", ["text", "json"])
def test_no_refusal_repeats_all_of_a_long_name(words: list[str], form: str) -> None:
    ran = assay(*words, "x" * 5000, "--output", form, home="/nonexistent/home")
    assert ran.code
    assert len(ran.err) < 1000
