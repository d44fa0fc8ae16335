"""Checks of keys: each has a weight, and no transaction makes more of them than it declares gas for."""

from typing import Any

import pytest

from chain.state_machine import transition
from chain.state_machine.context import Context
from chain.state_machine.lane import Lane
from chain.state_machine.rules import Rules
from chain.state_machine.transition import PaidTx
from domain.beacon import possession_sign_bytes
from domain.block import TxResult
from domain.crypto import WEIGHTS, Crypto
from domain.registry.messages import MsgSetBeaconKey
from domain.tx import Tx
from localnet.simulator import memory_chain
from tests.support.chain_harness import CHAIN_ID, HashCrypto, pub_key, sign
from tests.support.chain_market import Market, make_terms, submit
from wire.crypto import WireCrypto


class Counting(HashCrypto):
    """Adds up the weights of what it is asked."""

    def __init__(self) -> None:
        self.gas = 0

    def signature(self, key: bytes, message: bytes, signature: bytes) -> bool:
        self.gas += WEIGHTS["signature"]
        return super().signature(key, message, signature)

    def reveal(self, key: bytes, message: bytes, proof: bytes) -> bool:
        self.gas += WEIGHTS["reveal"]
        return super().reveal(key, message, proof)


def methods(cls: type) -> set[str]:
    return {name for name, value in vars(cls).items() if callable(value) and name[0] != "_"}


def test_every_check_has_a_weight_and_a_node_implements_it() -> None:
    assert methods(Crypto) == set(WEIGHTS) == methods(WireCrypto)
    crypto: Crypto = WireCrypto()
    assert not crypto.signature(b"", b"", b"")
    assert not crypto.reveal(b"", b"", b"")


def test_a_transaction_pays_for_each_check_that_it_causes(monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting()
    monkeypatch.setattr(memory_chain, "CRYPTO", counting)
    checked: dict[str, int] = {}
    pay, apply = transition.pay_tx, transition.apply_tx

    def paying(ctx: Context, rules: Rules, tx: Tx | Any, lane: Lane, in_lane: bool) -> PaidTx | TxResult:
        before = counting.gas
        paid = pay(ctx, rules, tx, lane, in_lane)
        assert counting.gas - before == WEIGHTS["signature"]
        return paid

    def applying(ctx: Context, rules: Rules, paid: PaidTx | Any) -> TxResult:
        before = counting.gas
        result = apply(ctx, rules, paid)
        used = counting.gas - before + WEIGHTS["signature"]
        assert result.gas_used >= used, paid.tx
        checked[type(paid.tx.messages[0]).__name__] = used // WEIGHTS["signature"]
        return result

    monkeypatch.setattr(transition, "pay_tx", paying)
    monkeypatch.setattr(transition, "apply_tx", applying)
    market = Market(providers=4)
    terms = make_terms(slots=4)
    market.settle(market.run(submit(terms=terms, deposit=10**9)))
    key = pub_key("new key")
    proof = sign(key, possession_sign_bytes(CHAIN_ID, "v0", key))
    market.chain.ok(MsgSetBeaconKey("v0", key, proof))
    assert checked["MsgAcceptOrder"] == 1
    assert checked["MsgSubmitOrder"] == checked["MsgSetBeaconKey"] == 2
    assert checked["MsgCommitTraces"] == 1 + terms.slots
