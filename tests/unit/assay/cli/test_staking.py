"""What `assay tx staking` takes as a rate, a validator and a consensus key."""

import json
from base64 import b64encode

import click
import pytest

from assay.cli.arguments import CONSENSUS_KEY
from assay.cli.staking import RATE, VALIDATOR
from tests.support.bounded import SOMEBODY
from wire.address import operator_address


@pytest.mark.parametrize(("text", "rate"), [("0", 0), ("1", 10**18), ("0.10", 10**17), ("0." + "0" * 17 + "1", 1)])
def test_a_rate_is_a_number_from_0_to_1(text: str, rate: int) -> None:
    assert RATE.convert(text, None, None) == rate


@pytest.mark.parametrize("text", ["", "-0.1", "1.1", "10%", "0." + "1" * 19, "nan", "1e-1", "٠.1"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not a rate; write a number from 0 to 1"):
        RATE.convert(text, None, None)


def test_a_validator_has_two_addresses() -> None:
    assert VALIDATOR.convert(SOMEBODY, None, None) == SOMEBODY
    assert VALIDATOR.convert(operator_address(SOMEBODY), None, None) == SOMEBODY


@pytest.mark.parametrize("text", ["", "mine", operator_address(SOMEBODY)[:-1] + "q", "cosmosvaloper1zyg3zyg3"])
def test_what_is_no_validator(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"use an address that starts with|checksum is wrong"):
        VALIDATOR.convert(text, None, None)


@pytest.mark.parametrize("name", ["key", "value"])
def test_a_consensus_key_in_the_form_of_the_sdk_or_of_cometbft(name: str) -> None:
    text = json.dumps({"type": "tendermint/PubKeyEd25519", name: b64encode(bytes(32)).decode()})
    assert CONSENSUS_KEY.convert(text, None, None) == bytes(32)


@pytest.mark.parametrize("text", ["ab" * 32, b64encode(b"\xab" * 32).decode()])
def test_a_consensus_key_as_signers_print_it(text: str) -> None:
    assert CONSENSUS_KEY.convert(text, None, None) == b"\xab" * 32


@pytest.mark.parametrize("text", ["", "[]", "{}", "1", '{"key": 7}', '{"key": "AA=="}', '{"key": "?"}', "null"])
def test_what_is_no_consensus_key(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not an Ed25519 key"):
        CONSENSUS_KEY.convert(text, None, None)
