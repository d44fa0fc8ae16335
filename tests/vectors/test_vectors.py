"""Bytes, roots, gas and events are what the vectors say; ``README.md`` here has what to do where they are not."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from domain.vocabulary import MESSAGES
from tests.vectors.kinds import KINDS, first_difference, path_of, text_of

ROOT = Path(__file__).parents[2]
# At least these the market sends; the next ones may be samples.
PLAYED = {
    "AcceptOrder",
    "AcceptShares",
    "AdmitProvider",
    "BeginRedelegate",
    "CancelOrder",
    "CancelUnbondingDelegation",
    "CertifyProvider",
    "ChangeBid",
    "CloseRound",
    "CommitAnswer",
    "CommitTraces",
    "CreateValidator",
    "DeclineOrder",
    "Delegate",
    "Deposit",
    "DepositBond",
    "DismissProvider",
    "EditValidator",
    "LeaveCluster",
    "PlaceBid",
    "RegisterProvider",
    "RevealAnswer",
    "Send",
    "SetEndpoint",
    "StopOrder",
    "SubmitOrder",
    "SubmitProposal",
    "Undelegate",
    "Vote",
    "VoteWeighted",
    "WithdrawBid",
    "WithdrawBond",
}
PROGRAM = """
from tests.vectors.kinds import KINDS, text_of
print(text_of(KINDS["market"]()), end="")
"""


@pytest.mark.parametrize("kind", KINDS)
def test_the_code_makes_what_the_file_has(kind: str) -> None:
    old = path_of(kind).read_text(encoding="utf-8")
    new = text_of(KINDS[kind]())
    difference = first_difference(json.loads(old), json.loads(new))
    assert not difference, f"{kind}.json{difference}; see tests/vectors/README.md"
    assert new == old, f"{kind}.json has another form: python -m tests.vectors.write {kind}"


def read(kind: str) -> Any:
    """Return what the file of a kind has."""
    return json.loads(path_of(kind).read_text(encoding="utf-8"))


def test_every_type_of_message_has_a_transaction() -> None:
    assert set(read("transactions")) == {cls.URL for cls in MESSAGES}


def test_the_market_takes_no_fewer_types_than_it_did() -> None:
    taken = {
        message["@type"].rpartition(".Msg")[2]
        for block in read("market")["blocks"]
        for tx in block["txs"]
        if tx.get("code") == 0
        for message in tx["messages"]
    }
    assert taken >= PLAYED


def test_the_first_field_signs() -> None:
    """Who that is, the transactions show: each names the field beside the signer's address and key.

    The messages of the Cosmos SDK have their fields in its order.
    """
    for url, made in read("transactions").items():
        _, (first, _), *_ = made["message"].items()
        field = made["signer"]["field"]
        assert made["signer"]["address"] == made["message"][field]
        assert field == first or url.startswith("/cosmos.")


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_the_market_does_not_depend_on_the_process_it_runs_in(hash_seed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == path_of("market").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}, ""),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, ".a[1].b: 2 became 3"),
        ({"a": 1}, {"a": True}, ".a: 1 became true"),
        ({"a": 1}, {"b": 1}, ".: an object of a became an object of b"),
        ([1], [1, 2], ".: [1] became [1, 2]"),
    ],
)
def test_a_difference_is_named(old: object, new: object, where: str) -> None:
    assert first_difference(old, new) == where
