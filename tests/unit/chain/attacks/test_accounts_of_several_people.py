"""A multisig account does what enough of its members signed, and nothing else."""

from dataclasses import replace
from typing import Any

import pytest
from cosmpy.protos.cosmos.crypto.multisig.v1beta1.multisig_pb2 import MultiSignature
from cosmpy.protos.cosmos.tx.v1beta1.tx_pb2 import ModeInfo

from chain.app.ahead import Ahead
from chain.state_machine.gas import gas_of
from domain.errors import INVALID_PUBKEY, UNAUTHORIZED, WRONG_SEQUENCE, Refusal
from domain.registry.messages import MsgRegisterProvider, MsgSetEndpoint
from domain.tx import PartSignature, SignMode
from tests.support.chain_harness import CHAIN_ID, Chain, make_genesis
from tests.support.signed import (
    GAS,
    RealSignatures,
    Shared,
    joint,
    joint_tx,
    key_of,
    real_chain,
    send,
    signed,
    with_high_s,
)
from wire.keys import SignatureVerifier
from wire.multisig import join_parts, key_proto, multisig_key
from wire.signing import sign_part
from wire.tx import TxDecoder, build_unsigned_tx, decode_simulated_tx, decode_tx, raw_of

ALICE, BOB, CAROL, EVE = map(key_of, ("alice", "bob", "carol", "eve"))
SHARED = Shared(2, (ALICE, BOB, CAROL), (ALICE, CAROL))


@pytest.fixture
def chain() -> Chain:
    return real_chain(SHARED.address, ALICE.address, EVE.address)


def refused(chain: Chain, raw: bytes, code: Any = UNAUTHORIZED, text: str = "") -> None:
    """The transaction is refused, by the decoder or by the mempool and the block, and nothing is paid."""
    before = chain.account(SHARED.address), chain.balance(SHARED.address)
    tx = TxDecoder()(raw)
    if isinstance(tx, Refusal):
        assert tx.code == code
        log = str(tx)
    else:
        assert chain.check(tx).code == code.number
        log = chain.refused(code, tx).log
    assert text in log
    assert (chain.account(SHARED.address), chain.balance(SHARED.address)) == before


def test_enough_members_move_the_coins(chain: Chain) -> None:
    for present in ((ALICE, CAROL), (BOB, CAROL), SHARED.members):
        tx = decode_tx(joint(chain, [send(SHARED, EVE)], [replace(SHARED, present=present)]))
        assert chain.check(tx).code == 0
        chain.ok(tx)
        chain.refused(WRONG_SEQUENCE, tx)
    account = chain.account(SHARED.address)
    assert account is not None
    assert (account.sequence, account.pub_key, account.is_multisig) == (3, SHARED.key, True)


def test_members_may_sign_the_bytes_as_the_sdk_allows(chain: Chain) -> None:
    """A member that knows who else signs can sign the bytes, which have the bits in them."""
    tx = joint_tx(chain, [send(SHARED, EVE)], [SHARED])
    present = [PartSignature(each.pub_key, SignMode.DIRECT, bytes(64)) for each in SHARED.present]
    template, _ = join_parts(SHARED.key, present)
    tx.auth_info.signer_infos[0].mode_info.CopyFrom(template)
    bytes_signed = decode_tx_of(tx, [bytes(64)] * 2).document(SignMode.DIRECT, CHAIN_ID, 0, 0)
    chain.ok(decode_tx_of(tx, [ALICE.sign(bytes_signed), CAROL.sign(bytes_signed)]))


def decode_tx_of(tx: Any, signatures: list[bytes]) -> Any:
    tx.signatures[:] = [MultiSignature(signatures=signatures).SerializeToString()]
    return decode_tx(raw_of(tx))


def parts_of(chain: Chain, tx: Any, *keys: Any) -> list[PartSignature]:
    return [sign_part(tx, key, CHAIN_ID, 0, 0) for key in keys]


def with_parts(tx: Any, key: bytes, parts: list[PartSignature]) -> bytes:
    """Return a transaction whose first signer has these parts, whoever made them."""
    mode, signature = join_parts(key, parts)
    tx.auth_info.signer_infos[0].public_key.CopyFrom(key_proto(key))
    tx.auth_info.signer_infos[0].mode_info.CopyFrom(mode)
    tx.signatures[0] = signature
    return raw_of(tx)


def test_too_few_members(chain: Chain) -> None:
    tx = joint_tx(chain, [send(SHARED, EVE)], [SHARED])
    raw = with_parts(tx, SHARED.key, parts_of(chain, tx, ALICE))
    refused(chain, raw, text="not enough signatures set, have 1, expected 2")


def test_a_member_does_not_sign_for_another(chain: Chain) -> None:
    tx = joint_tx(chain, [send(SHARED, EVE)], [SHARED])
    (own,) = parts_of(chain, tx, ALICE)
    raw = with_parts(tx, SHARED.key, [own, replace(own, key=BOB.pub_key)])
    refused(chain, raw, text="signature verification failed")


def test_strangers_do_not_sign(chain: Chain) -> None:
    tx = joint_tx(chain, [send(SHARED, EVE)], [SHARED])
    (own, other) = parts_of(chain, tx, ALICE, EVE)
    refused(chain, with_parts(tx, SHARED.key, [own, replace(other, key=BOB.pub_key)]))


def test_a_key_with_a_lower_threshold_is_another_account(chain: Chain) -> None:
    tx = joint_tx(chain, [send(SHARED, EVE)], [SHARED])
    weaker = multisig_key(1, [each.pub_key for each in SHARED.members])
    refused(chain, with_parts(tx, weaker, parts_of(chain, tx, ALICE)), text="does not match signer address")


def test_the_key_of_the_account_stays(chain: Chain) -> None:
    """Even if two keys had one address, the key that signed first would count."""
    chain.ok(decode_tx(joint(chain, [send(SHARED, EVE)], [SHARED])))
    tx = decode_tx(joint(chain, [send(SHARED, EVE)], [SHARED]))
    weaker = multisig_key(1, [each.pub_key for each in SHARED.members])
    other = replace(tx, signers=(replace(tx.signers[0], pub_key=weaker),))
    chain.refused(INVALID_PUBKEY, other)


def test_a_signature_of_one_person_does_not_open_the_account(chain: Chain) -> None:
    def bend(tx: Any) -> bytes:
        tx.auth_info.signer_infos[0].mode_info.CopyFrom(ModeInfo(single=ModeInfo.Single(mode=127)))
        (own,) = parts_of(chain, tx, ALICE)
        tx.signatures[0] = own.signature
        return raw_of(tx)

    tx = joint_tx(chain, [send(SHARED, EVE)], [SHARED])
    refused(chain, bend(tx), text="is not a sign mode of this chain")
    chain.ok(decode_tx(joint(chain, [send(SHARED, EVE)], [SHARED])))
    for mode in SignMode:
        raw = signed(chain, ALICE, send(SHARED, EVE), mode=mode, sequence=1)
        refused(chain, raw, text="does not match signer address")
    # The chain knows the account's key now, so a person could leave the key out.
    tx = joint_tx(chain, [send(SHARED, EVE)], [SHARED])
    tx.auth_info.signer_infos[0].mode_info.single.mode = 1
    tx.auth_info.signer_infos[0].ClearField("public_key")
    tx.signatures[0] = bytes(64)
    refused(chain, raw_of(tx), INVALID_PUBKEY, "several people sign for the account")


def test_a_member_signs_for_one_account_only(chain: Chain) -> None:
    """What Alice signs as a member is not a signature of her own account, and not one of another account of hers."""
    other = Shared(1, (ALICE, EVE), (ALICE,))
    chain.ok(decode_tx(signed(chain, EVE, send(EVE, other, 10_000))))
    tx = joint_tx(chain, [send(other, EVE)], [other])
    text = decode_tx(raw_of(tx)).document(SignMode.AMINO_JSON, CHAIN_ID, 0, 0)
    assert b'"account_number":"0"' in text
    wrong_number = PartSignature(ALICE.pub_key, SignMode.AMINO_JSON, ALICE.sign(text))
    tx_of_other = decode_tx(with_parts(tx, other.key, [wrong_number]))
    chain.refused(UNAUTHORIZED, tx_of_other)


def test_signatures_have_one_form(chain: Chain) -> None:
    """Nobody can make a second transaction out of one, but leave out what is more than enough."""
    tx = joint_tx(chain, [send(SHARED, EVE)], [SHARED])
    parts = parts_of(chain, tx, ALICE, CAROL)
    high = [replace(part, signature=with_high_s(part.signature)) for part in parts]
    refused(chain, with_parts(tx, SHARED.key, high))
    good = with_parts(tx, SHARED.key, parts)
    whole = MultiSignature.FromString(tx.signatures[0])
    whole.signatures.append(bytes(64))
    tx.signatures[0] = whole.SerializeToString()
    refused(chain, raw_of(tx), text="3 signatures")
    chain.ok(decode_tx(good))


def test_each_member_that_signs_costs_gas(chain: Chain) -> None:
    two, three = (
        decode_tx(joint(chain, [send(SHARED, EVE)], [replace(SHARED, present=present)]))
        for present in ((ALICE, BOB), SHARED.members)
    )
    assert gas_of(three) - gas_of(two) == 10_000 + 10 * (three.size - two.size)
    alone = decode_tx(signed(chain, ALICE, send(ALICE, EVE), mode=SignMode.AMINO_JSON))
    more = 10 * (two.size - alone.size + len(two.amino) - len(alone.amino))
    assert gas_of(two) - gas_of(alone) == 10_000 + more


def test_a_simulation_counts_the_members_that_are_needed(chain: Chain) -> None:
    """As wallets simulate: with one mode that is not specified and an empty signature, or with empty signatures."""
    raw = build_unsigned_tx([send(SHARED, EVE)], SHARED.key, sequence=0)
    used = chain.simulate(decode_simulated_tx(raw)).gas_used
    tx = joint_tx(chain, [send(SHARED, EVE)], [SHARED])
    real = gas_of(decode_tx(raw_of(tx)))
    assert used < real < used * 1.1
    tx.signatures[0] = MultiSignature(signatures=[b"", b""]).SerializeToString()
    assert chain.simulate(decode_simulated_tx(raw_of(tx))).code == 0


def test_looking_ahead_takes_only_what_all_have_signed(chain: Chain) -> None:
    good = joint(chain, [send(SHARED, EVE)], [SHARED])
    tx = joint_tx(chain, [send(SHARED, EVE, 8)], [SHARED])
    (own, other) = parts_of(chain, tx, ALICE, CAROL)
    bad = with_parts(tx, SHARED.key, [own, replace(other, signature=own.signature)])
    ahead = Ahead(TxDecoder(), SignatureVerifier())
    for raws in ([good, bad], [bad, good]):
        ahead.fetch(chain.store, CHAIN_ID, raws)
        assert [ahead.take(raw) is not None for raw in raws] == [raw is good for raw in raws]


def test_a_multisig_account_is_neither_provider_nor_validator() -> None:
    """Tasks, shares and receipts need the key of one person, or nobody could prove them."""
    chain = Chain(make_genesis((SHARED.address,), ("v0", SHARED.address)))
    chain.crypto = RealSignatures()
    for message in (
        MsgRegisterProvider(SHARED.address, SHARED.address),
        MsgSetEndpoint(SHARED.address, "192.0.2.7:7430", bytes(range(32))),
    ):
        raw = joint(chain, [message], [SHARED], gas_limit=GAS)
        result = chain.refused(INVALID_PUBKEY, decode_tx(raw))
        assert "is a multisig account" in result.log
