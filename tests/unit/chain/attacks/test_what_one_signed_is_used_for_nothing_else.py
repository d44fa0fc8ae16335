"""A signature over amino JSON or over bytes allows one transaction, once, and nobody can give it a second meaning."""

from collections.abc import Callable
from typing import Any

import pytest
from cosmpy.protos.cosmos.tx.v1beta1.tx_pb2 import AuthInfo, TxBody, TxRaw

from domain.errors import INVALID_PUBKEY, UNAUTHORIZED, WRONG_SEQUENCE, Refusal
from domain.tx import SignMode, sign_doc
from tests.support.chain_harness import CHAIN_ID, Chain
from tests.support.signed import key_of, real_chain, send, signed, with_high_s
from wire.messages import to_proto
from wire.tx import decode_tx

ALICE, BOB = key_of("alice"), key_of("bob")


@pytest.fixture
def chain() -> Chain:
    return real_chain(ALICE.address, BOB.address)


def bent(raw: bytes, bend: Callable[[Any, Any, list[bytes]], None]) -> bytes:
    """Return a transaction whose parts ``bend`` changed: body, auth info and signatures."""
    parts = TxRaw.FromString(raw)
    body, auth = TxBody.FromString(parts.body_bytes), AuthInfo.FromString(parts.auth_info_bytes)
    signatures = list(parts.signatures)
    bend(body, auth, signatures)
    whole = TxRaw(body_bytes=body.SerializeToString(), auth_info_bytes=auth.SerializeToString(), signatures=signatures)
    return bytes(whole.SerializeToString())


def refused(chain: Chain, raw: bytes) -> None:
    """The mempool and the block refuse, and nothing is paid."""
    before = chain.account(ALICE.address)
    assert chain.check(decode_tx(raw)).code == UNAUTHORIZED.number
    chain.refused(UNAUTHORIZED, decode_tx(raw))
    assert chain.account(ALICE.address) == before


@pytest.mark.parametrize("mode", SignMode)
def test_a_transaction_is_done_once_in_either_mode(chain: Chain, mode: SignMode) -> None:
    raw = signed(chain, ALICE, send(ALICE, BOB), mode=mode)
    assert chain.check(decode_tx(raw)).code == 0
    chain.ok(decode_tx(raw))
    chain.refused(WRONG_SEQUENCE, decode_tx(raw))


@pytest.mark.parametrize(("mode", "other"), [tuple(SignMode), tuple(SignMode)[::-1]])
def test_a_signature_of_one_mode_is_none_of_the_other(chain: Chain, mode: SignMode, other: SignMode) -> None:
    def relabel(body: Any, auth: Any, signatures: list[bytes]) -> None:
        auth.signer_infos[0].mode_info.single.mode = int(other)

    refused(chain, bent(signed(chain, ALICE, send(ALICE, BOB), mode=mode), relabel))


def test_a_signature_of_the_bytes_does_not_count_under_the_label_of_the_text(chain: Chain) -> None:
    raw = signed(chain, ALICE, send(ALICE, BOB), mode=SignMode.AMINO_JSON)
    tx = decode_tx(raw)

    def sign_bytes(body: Any, auth: Any, signatures: list[bytes]) -> None:
        signatures[0] = ALICE.sign(sign_doc(tx.body, tx.auth_info, CHAIN_ID, 0))

    refused(chain, bent(raw, sign_bytes))


def more_gas(body: Any, auth: Any, signatures: list[bytes]) -> None:
    auth.fee.gas_limit += 1


def higher_fee(body: Any, auth: Any, signatures: list[bytes]) -> None:
    auth.fee.amount[0].amount = "1001"


def named_payer(body: Any, auth: Any, signatures: list[bytes]) -> None:
    auth.fee.payer = ALICE.address


def other_memo(body: Any, auth: Any, signatures: list[bytes]) -> None:
    body.memo = "x"


def no_timeout(body: Any, auth: Any, signatures: list[bytes]) -> None:
    body.timeout_height = 0


def other_amount(body: Any, auth: Any, signatures: list[bytes]) -> None:
    body.messages[0].CopyFrom(to_proto(send(ALICE, BOB, 8)))


def one_more(body: Any, auth: Any, signatures: list[bytes]) -> None:
    body.messages.append(to_proto(send(ALICE, BOB)))


def high_s(body: Any, auth: Any, signatures: list[bytes]) -> None:
    signatures[0] = with_high_s(signatures[0])


BENDS = (more_gas, higher_fee, named_payer, other_memo, no_timeout, other_amount, one_more, high_s)


@pytest.mark.parametrize("mode", SignMode)
@pytest.mark.parametrize("bend", BENDS)
def test_what_was_signed_cannot_be_changed(chain: Chain, bend: Any, mode: SignMode) -> None:
    raw = signed(chain, ALICE, send(ALICE, BOB), mode=mode, memo="rent", timeout_height=50)
    assert chain.check(decode_tx(raw)).code == 0
    refused(chain, bent(raw, bend))


@pytest.mark.parametrize("mode", SignMode)
@pytest.mark.parametrize("wrong", [{"chain_id": "other"}, {"account_number": 1}])
def test_a_signature_is_for_one_chain_and_one_account(chain: Chain, mode: SignMode, wrong: dict[str, Any]) -> None:
    refused(chain, signed(chain, ALICE, send(ALICE, BOB), mode=mode, **wrong))


def test_a_sequence_that_was_not_signed_is_refused(chain: Chain) -> None:
    def later(body: Any, auth: Any, signatures: list[bytes]) -> None:
        auth.signer_infos[0].sequence = 1

    raw = bent(signed(chain, ALICE, send(ALICE, BOB), mode=SignMode.AMINO_JSON), later)
    chain.ok(decode_tx(signed(chain, ALICE, send(ALICE, BOB))))
    refused(chain, raw)


def test_a_text_that_was_signed_has_one_encoding(chain: Chain) -> None:
    """The text does not say whether the key is in the transaction, so it must be."""

    def drop_key(body: Any, auth: Any, signatures: list[bytes]) -> None:
        auth.signer_infos[0].ClearField("public_key")

    chain.ok(decode_tx(signed(chain, ALICE, send(ALICE, BOB))))
    raw = bent(signed(chain, ALICE, send(ALICE, BOB), mode=SignMode.AMINO_JSON), drop_key)
    with pytest.raises(Refusal) as twice:
        decode_tx(raw)
    assert twice.value.code == INVALID_PUBKEY


def test_a_text_costs_the_gas_of_its_characters(chain: Chain) -> None:
    texts = [decode_tx(signed(chain, ALICE, send(ALICE, BOB), mode=mode)) for mode in SignMode]
    gas = [chain.check(tx).gas_used for tx in texts]
    assert gas[1] - gas[0] == 10 * (len(texts[1].amino) + texts[1].size - texts[0].size)
    assert len(texts[1].amino) > 200
