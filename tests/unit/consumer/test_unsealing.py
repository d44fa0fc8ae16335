"""A result is opened as it arrives; the first wrong chunk ends that, with a proof that the chain accepts."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from consumer.unsealing import HandedOver, Unsealer
from domain.params import local_params
from domain.proof.records import SealedLeaf
from link.errors import ClusterError
from link.handover import HandoverError, Sealed, seal_chunk
from link.types import ResultLeaf
from localnet.simulator.training import noise
from pol.rules.commitment import chunk_leaf
from pol.rules.handover import HandoverId
from pol.state.arrays import State
from pol.state.canonical import chunks_of, encode_state, state_specs, state_tree
from tests.support.chain_market import CONSUMER, make_terms
from tests.support.handed_over import (
    ORDER_KEY,
    ORDER_SECRET,
    VALIDATOR_SECRET,
    HandoverMarket,
    Spoil,
    order_with_key,
    spoilt,
)

GLOBAL: State = {"a": np.arange(20_000, dtype=np.float32), "b": np.ones(3, np.float32)}
"""Chunks: the header, two of ``a`` and one of ``b``."""
LOCALS: list[State] = [{"m": np.full(4, slot, np.float32)} for slot in range(2)]
STATES = [GLOBAL, *LOCALS]
COUNT = 8


class RealMarket(HandoverMarket):
    """Its rounds leave states of tensors."""

    def chunks(self, order_id: bytes, round: int, state: int) -> list[bytes]:
        del order_id, round
        return chunks_of(encode_state(STATES[state]))


def trained(spoil: Spoil | None = None) -> tuple[RealMarket, bytes]:
    """Return a market with an order that has a closed hand-over round."""
    market = RealMarket(local_params().replace(handover_every=1))
    if spoil is not None:
        market.spoil = spoil
    terms = make_terms(global_chunks=4, local_chunks=2)
    order_id = market.run(order_with_key(terms=terms))
    market.train_round(order_id)
    return market, order_id


def sent(market: RealMarket, order_id: bytes) -> tuple[HandedOver, list[ResultLeaf], list[Sealed]]:
    """Return what the chain says, the leaves that the validator sends, and the chunks."""
    sealed = market.sealed(order_id, 0)
    chunks = [chunk for state in range(3) for chunk in market.chunks(order_id, 0, state)]
    leaves = [ResultLeaf(s.leaf, chunk_leaf(chunk)) for s, chunk in zip(sealed, chunks, strict=True)]
    expected = HandedOver(
        handover=market.handover(order_id, 0),
        layout=market.layout(order_id),
        root=market.round(order_id, 0).ciphertext_root,
        entries=[(state_specs(state), state_tree(state).root) for state in STATES],
        secret=ORDER_SECRET,
        consumer=CONSUMER,
    )
    return expected, leaves, sealed


def pieces(sealed: list[Sealed], size: int) -> Iterator[bytes]:
    data = b"".join(chunk.ciphertext for chunk in sealed)
    return (data[at : at + size] for at in range(0, len(data), size))


@pytest.mark.parametrize("size", [1_000, 65_536, 10**6])
def test_states_are_opened_however_their_bytes_come(tmp_path: Path, size: int) -> None:
    expected, leaves, sealed = sent(*trained())
    unsealer = Unsealer(expected, leaves, tmp_path)
    assert unsealer.size == sum(len(chunk.ciphertext) for chunk in sealed)
    for piece in pieces(sealed, size):
        unsealer.take(piece)
    opened = unsealer.states()
    assert len(opened) == len(STATES)
    for state, other in zip(opened, STATES, strict=True):
        assert encode_state(state) == encode_state(other)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [1, 2, 3, 5, 7])
def test_the_chain_accepts_the_proof_of_each_wrong_chunk(tmp_path: Path, number: int) -> None:
    market, order_id = trained(spoilt(number, noise))
    expected, leaves, sealed = sent(market, order_id)
    unsealer = Unsealer(expected, leaves, tmp_path)
    with pytest.raises(HandoverError, match=f"result chunk {number}: does not decrypt") as caught:
        unsealer.take(b"".join(pieces(sealed, 10**6)))
    assert caught.value.chunk == number
    assert caught.value.complaint
    market.chain.ok(caught.value.complaint)


def _other_content(at: int) -> Spoil:
    def spoil(handover: HandoverId, sealed: list[Sealed]) -> list[Sealed]:
        size = len(sealed[at].ciphertext) - 16
        return [*sealed[:at], seal_chunk(handover, at, bytes(size), ORDER_KEY, VALIDATOR_SECRET), *sealed[at + 1 :]]

    return spoil


def test_a_chunk_that_decrypts_to_another_one_is_wrong(tmp_path: Path) -> None:
    market, order_id = trained(_other_content(2))
    expected, leaves, sealed = sent(market, order_id)
    unsealer = Unsealer(expected, leaves, tmp_path)
    with pytest.raises(
        HandoverError, match="result chunk 2: does not decrypt to the chunk that the state has"
    ) as caught:
        unsealer.take(b"".join(chunk.ciphertext for chunk in sealed))
    assert caught.value.complaint
    market.chain.ok(caught.value.complaint)


def test_a_wrong_chunk_is_seen_before_the_next_one_arrives(tmp_path: Path) -> None:
    expected, leaves, sealed = sent(*trained(spoilt(1, noise)))
    unsealer = Unsealer(expected, leaves, tmp_path)
    unsealer.take(sealed[0].ciphertext)
    unsealer.take(sealed[1].ciphertext[:-1])
    with pytest.raises(HandoverError, match="result chunk 1"):
        unsealer.take(sealed[1].ciphertext[-1:])


def _point(sealed: Sealed) -> Sealed:
    return replace(sealed, point=bytes(33))


def _long(sealed: Sealed) -> Sealed:
    return replace(sealed, ciphertext=bytes(65_536 + 17))


@pytest.mark.parametrize(("change", "reason"), [(_point, "not on the curve"), (_long, "65553 bytes")])
def test_a_leaf_that_no_chunk_has_is_proven_before_anything_arrives(
    tmp_path: Path, change: Callable[[Sealed], Sealed], reason: str
) -> None:
    market, order_id = trained(spoilt(3, change))
    expected, leaves, _ = sent(market, order_id)
    with pytest.raises(HandoverError, match=reason) as caught:
        Unsealer(expected, leaves, tmp_path)
    assert caught.value.complaint
    assert caught.value.complaint.opened is None
    market.chain.ok(caught.value.complaint)


def test_headers_come_from_the_job(tmp_path: Path) -> None:
    """A header can be longer than a transaction, so a wrong one could not be proven."""
    expected, leaves, sealed = sent(*trained(spoilt(0, noise)))
    unsealer = Unsealer(expected, leaves, tmp_path)
    for piece in pieces(sealed, 10**6):
        unsealer.take(piece)
    assert encode_state(unsealer.states()[0]) == encode_state(GLOBAL)


def test_bytes_of_another_hash_than_the_leaf_prove_nothing(tmp_path: Path) -> None:
    expected, leaves, sealed = sent(*trained())
    unsealer = Unsealer(expected, leaves, tmp_path)
    with pytest.raises(ClusterError, match="sent bytes of chunk 0 that do not have the hash"):
        unsealer.take(bytes(len(sealed[0].ciphertext)))


def test_leaves_have_the_roots_on_chain(tmp_path: Path) -> None:
    expected, leaves, _ = sent(*trained())
    sealed = replace(leaves[1], sealed=SealedLeaf(ORDER_KEY, 20, bytes(32)))
    for at, leaf, reason in (
        (1, sealed, "ciphertext do not have the root"),
        (1, replace(leaves[1], state_leaf=bytes(32)), "the leaves of the global state do not have the root"),
        (7, replace(leaves[7], state_leaf=bytes(32)), "the leaves of the local state of slot 1 do not"),
    ):
        with pytest.raises(HandoverError, match=reason) as caught:
            Unsealer(expected, [*leaves[:at], leaf, *leaves[at + 1 :]], tmp_path)
        assert caught.value.complaint is None
    with pytest.raises(HandoverError, match="the result has 7 chunks instead of 8"):
        Unsealer(expected, leaves[:-1], tmp_path)


def test_what_is_cut_off_is_no_result(tmp_path: Path) -> None:
    expected, leaves, sealed = sent(*trained())
    for end in (-1, None):
        unsealer = Unsealer(expected, leaves, tmp_path)
        unsealer.take(b"".join(pieces(sealed, 10**6))[:end] + (b"" if end else b"x"))
        with pytest.raises(HandoverError, match="size is not"):
            unsealer.states()
        unsealer.close()
