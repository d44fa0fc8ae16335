"""Pages, docstrings and comments name nothing that is not there."""

import pytest

from tests.lint.references import ROOT, found, missing

HERE = ROOT / "domain" / "hashing.py"


@pytest.mark.parametrize(
    "text",
    [
        "see domain/nothing.py",
        "see nothing.py",
        "see `domain/nothing/`",
        "see chain/nothing",
        "``domain.hashing.nothing``",
        "`domain.nothing.merkle_leaf`",
        ":mod:`domain.nothing`",
        ":func:`nothing`",
        "`SparseHouseOfCards`",
        "`run_nothing_server()`",
        "``assay.market.v1.MsgNothing``",
        "python -m pol.nothing",
    ],
)
def test_what_is_not_there_is_found(text: str) -> None:
    assert list(missing(text, HERE))


@pytest.mark.parametrize(
    "text",
    [
        "see domain/hashing.py and hashing.py and docs/protocol.md",
        "see `chain/state_machine/ledger/` and pol/rules",
        "``domain.hashing.merkle_leaf(tag, item)``",
        ":func:`merkle_leaf` :mod:`domain.hashing`",
        "`FinalizeBlock`, `MsgSubmitOrder`, `assay.market.v1.MsgSubmitOrder`",
        "`assay job build FILE.py` writes job.json",
        'the tag "assay/boundary"',
        "a plain `word`",
    ],
)
def test_what_is_there_may_be_named(text: str) -> None:
    assert list(missing(text, HERE)) == []


def test_everything_that_is_named_is_there() -> None:
    assert [f"{place}: {name}" for place, name in found()] == []
