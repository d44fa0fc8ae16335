"""The rows of ``tests.same_bits`` cover every value, and a row that differs is told; networks run in integration."""

import json
from collections import Counter
from dataclasses import replace
from itertools import chain

import pytest

from tests.same_bits.__main__ import main
from tests.same_bits.run import Outcome
from tests.same_bits.table import AVERAGE, IN_MAKE_TEST, NESTEROV, ROWS, SLOW, TORCH, spec_of

HASH, OTHER = "ab" * 32, "cd" * 32


def test_every_value_is_in_a_row() -> None:
    assert max(Counter(row.name for row in ROWS).values()) == 1
    assert {row.job for row in ROWS} == {"digits", "char-gpt", "lstm"}
    assert {len(row.providers) for row in ROWS} == {1, 2, 5}
    assert {(row.slots, row.outer) for row in ROWS} >= {
        (1, AVERAGE),
        (1, NESTEROV),
        (4, AVERAGE),
        (4, NESTEROV),
    }
    faults = {"cheat", "share re-issued", "validator killed", "provider killed"}
    assert set(chain.from_iterable(row.faults for row in ROWS)) == faults
    unlike = [row for row in ROWS if len(row.providers) > 1]
    assert all(len(set(row.providers)) > 1 for row in unlike)
    assert all({SLOW, TORCH} <= set(row.providers) for row in unlike if len(row.providers) == 5)


def test_the_rows_of_make_test_have_each_job_and_both_numbers_of_slots() -> None:
    """The third job is trained there by several machines of one owner."""
    rows = [row for row in ROWS if row.name in IN_MAKE_TEST]
    assert len(rows) == len(IN_MAKE_TEST) == 2
    assert {row.job for row in rows} | {"char-gpt"} == {row.job for row in ROWS}
    assert {row.slots for row in rows} == {1, 4}
    assert {row.outer for row in rows} == {AVERAGE, NESTEROV}


def test_one_row_makes_one_round_of_what_another_makes_several_of() -> None:
    (whole,) = (row for row in ROWS if row.one_round)
    assert (whole.slots, whole.outer) == (1, AVERAGE)
    several = [row for row in ROWS if (row.job, row.slots) == (whole.job, 1) and not row.one_round]
    assert [spec_of(row).round_steps for row in (whole, *several)] == [40, 20]
    assert {spec_of(row).steps for row in (whole, *several)} == {40}


@pytest.mark.parametrize(
    ("network", "error", "code"),
    [(HASH, "", 0), (OTHER, "", 1), ("", "", 1), (HASH, "no share was re-issued", 1)],
    ids=["same", "differs", "none", "without its fault"],
)
def test_a_row_that_differs_is_told(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    network: str,
    error: str,
    code: int,
) -> None:
    row = replace(ROWS[0], name=IN_MAKE_TEST[0])
    outcome = Outcome(row, HASH if network else "", network, error)
    monkeypatch.setattr("tests.same_bits.__main__.run_rows", lambda *_: [outcome])
    assert main(["--output", "json"]) == code
    (told,) = json.loads(capsys.readouterr().out)
    assert told["same"] is (code == 0)
    assert (told["local_sha256"], told["network_sha256"]) == (outcome.local_sha256, network)
    assert main([]) == code
    assert (error or ("DIFFERS" if code else "same")) in capsys.readouterr().out


def test_an_unknown_row_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such-row"]) == 2
    assert "digits-unlike" in capsys.readouterr().err
