"""What the consensus reports with a block reaches the state machine: proposer, time, votes and misbehaviour."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, cast

import pytest
from cosmpy.protos.tendermint.abci import types_pb2 as abci
from google.protobuf.timestamp_pb2 import Timestamp

from chain.app.abci_methods import Methods
from chain.app.application import AppConfig, Application
from chain.app.beacon_keys import BeaconKeys
from chain.app.solo import SoloEngine
from chain.app.storage import Storage
from chain.state_machine.component import Component
from chain.state_machine.components import COMPONENTS
from chain.state_machine.context import BlockInfo, Context
from chain.state_machine.rules import Rulebook, Rules
from chain.state_machine.steps import BEGIN
from domain.block import Misbehaviour, MisbehaviourKind, Vote
from tests.support.chain_harness import Chain, make_genesis
from tests.support.small_chain import GENESIS_TIME_NS, beacon_key, cons_address, genesis

SECOND = 10**9


class Reported:
    """An application whose rules note what each block brings."""

    def __init__(self, validators: int, storage: Storage) -> None:
        self.blocks: list[BlockInfo] = []
        self.genesis = genesis(validators=validators)
        spy = Component(name="spy", hooks=(BEGIN.to(self.note),))
        self.app = Application(
            storage,
            AppConfig(solo=True),
            beacon_keys=BeaconKeys([beacon_key(number) for number in range(validators)]),
            rulebook=Rulebook(Rules(1, (*COMPONENTS, spy))),
        )

    def note(self, ctx: Context) -> None:
        self.blocks.append(ctx.block)


@pytest.fixture
def storage() -> Iterator[Storage]:
    made = Storage.temporary()
    yield made
    made.close()


def test_votes_and_misbehaviour_of_the_consensus_reach_the_rules(storage: Storage) -> None:
    node = Reported(4, storage)
    node.app.init_chain(node.genesis, GENESIS_TIME_NS)
    methods = Methods(node.app, lambda *_: None)
    flags = (2, 1, 3, 1)  # for the block, absent, for no block, absent
    votes = [
        abci.VoteInfo(validator=abci.Validator(address=cons_address(number), power=number), block_id_flag=cast(Any, f))
        for number, f in enumerate(flags)
    ]
    evidence = [
        abci.Misbehavior(
            type=cast(Any, kind),
            validator=abci.Validator(address=cons_address(kind), power=5),
            height=7,
            time=Timestamp(seconds=9, nanos=3),
            total_voting_power=20,
        )
        for kind in (1, 0, 2)  # no rule knows kind 0
    ]
    methods.table["finalize_block"](
        abci.RequestFinalizeBlock(
            decided_last_commit=abci.CommitInfo(round=1, votes=votes),
            misbehavior=evidence,
            hash=bytes(32),
            height=1,
            time=Timestamp(seconds=1_700_000_009, nanos=5),
            proposer_address=cons_address(3),
        )
    )
    (block,) = node.blocks
    assert (block.proposer, block.time_ns) == (cons_address(3), 1_700_000_009 * SECOND + 5)
    signed = (True, False, True, False)
    assert block.votes == tuple(Vote(cons_address(number), number, signed[number]) for number in range(4))
    kinds = (MisbehaviourKind.DUPLICATE_VOTE, MisbehaviourKind.LIGHT_CLIENT_ATTACK)
    assert block.misbehaviours == tuple(Misbehaviour(kind, cons_address(kind), 7, 9 * SECOND + 3, 5) for kind in kinds)


def test_a_solo_chain_votes_with_its_whole_set(storage: Storage) -> None:
    node = Reported(2, storage)
    engine = SoloEngine(node.app, node.genesis, genesis_time_ns=GENESIS_TIME_NS)
    engine.make_block(time_ns=GENESIS_TIME_NS + SECOND)
    engine.make_block(time_ns=GENESIS_TIME_NS + 2 * SECOND)
    first, second = node.blocks
    assert first.votes == ()
    assert set(second.votes) == {Vote(cons_address(number), 5, signed=True) for number in range(2)}
    assert second.proposer in {cons_address(0), cons_address(1)}


def test_the_simulated_chain_votes_with_the_set_of_two_blocks_ago() -> None:
    chain = Chain(make_genesis(("alice",), ("v0", "v1")))
    seen = [chain.votes()]
    for _ in range(3):
        chain.block()
        seen.append(chain.votes())
    powers = [(sha256(key).digest()[:20], power) for key, power in chain.sets[0].items()]
    everyone = tuple(Vote(address, power, signed=True) for address, power in powers)
    assert seen == [(), everyone, everyone, everyone]
    chain.away = {"v1"}
    assert [vote.signed for vote in chain.votes()] == [True, False]
    update = chain.first_validators[1]
    assert sha256(update.cons_key).digest()[:20] == chain.votes()[1].validator
