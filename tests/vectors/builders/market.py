"""A scripted market through the state machine: blocks in; app hashes, results and events out.

The addresses are readable names and the signatures hashes, as in every test on :mod:`tests.support.chain_harness`.
"""

from dataclasses import replace
from functools import cache
from typing import Any

from chain.app import smt
from domain.amount import ASSAY
from domain.beacon import possession_sign_bytes
from domain.block import Block, BlockResult
from domain.codec import to_plain
from domain.errors import TX_DECODE, Refusal
from domain.events import Event
from domain.genesis import DENOM
from domain.gov.messages import (
    MsgVoteWeighted,
    OldMsgDeposit,
    OldMsgVote,
    OldMsgVoteWeighted,
    OldWeightedVoteOption,
    WeightedVoteOption,
)
from domain.ledger.messages import MsgSend, MsgWithdrawBond
from domain.ledger.params import LedgerParams
from domain.ledger.records import Coin
from domain.legs.messages import MsgDeclineOrder, MsgStopOrder
from domain.legs.reasons import LegEnd
from domain.market.messages import MsgCancelOrder, MsgChangeBid, MsgWithdrawBid
from domain.market.records import Conditions
from domain.messages import Message
from domain.params import local_params
from domain.proof.reasons import ShareReason
from domain.registry.messages import (
    MsgCertifyProvider,
    MsgDismissProvider,
    MsgLeaveCluster,
    MsgRevokeBeaconKey,
    MsgSetBeaconKey,
    MsgSetEndpoint,
)
from domain.staking.records import ONE, Description
from domain.tx import Tx
from tests.support.chain_harness import CHAIN_ID, Chain, pub_key, sign
from tests.support.chain_market import BOND, PRICE, Market, bid, submit
from tests.support.proposals import ABSTAIN, NO, VETO, YES, change, deposit, end_voting, propose, vote
from tests.support.stakes import cancel, create, delegate, edit, redelegate, undelegate
from wire.messages import type_url

PARAMS = local_params().replace(audit_bps=2_000)


class RecordedChain(Chain):
    """A chain that keeps every block with all that came of it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.first_root = self.root()
        self.blocks: list[dict[str, Any]] = []
        self.messages: list[Message] = []

    def root(self) -> str:
        """Return the app hash: the root of the sparse Merkle tree over the whole state."""
        state: dict[bytes, bytes | None] = dict(self.store.scan(b""))
        return smt.update(lambda _: None, state).root.hex()

    def block(self, *items: Any, **options: Any) -> BlockResult:
        result = super().block(*items, **options)
        assert self.last_block is not None
        self.blocks.append(plain_block(self.last_block, result) | {"app_hash": self.root()})
        for tx, outcome in zip(self.last_block.txs, result.tx_results, strict=True):
            if isinstance(tx, Tx) and outcome.code == 0:
                self.messages += tx.messages
        return result


def plain_block(block: Block, result: BlockResult) -> dict[str, Any]:
    pairs = zip(block.txs, result.tx_results, strict=True)
    return {
        "height": block.height,
        "time_ns": block.time_ns,
        "hash": block.hash.hex(),
        "proposer": block.proposer.hex(),
        "reveal": block.reveal.proof.hex() if block.reveal is not None else "",
        "txs": [
            plain_tx(tx)
            | {
                "code": outcome.code,
                "codespace": outcome.codespace,
                "gas_used": outcome.gas_used,
                "events": [plain_event(event) for event in outcome.events],
                "responses": [[name, value.hex()] for name, value in outcome.responses],
            }
            for tx, outcome in pairs
        ],
        "events": [plain_event(event) for event in result.events],
        "validator_updates": to_plain(result.validator_updates),
    }


def plain_tx(tx: Tx | Refusal) -> dict[str, Any]:
    if isinstance(tx, Refusal):
        return {"refused": f"{tx.code.space}/{tx.code.number}"}
    return {
        "size": tx.size,
        "sequence": tx.signers[0].sequence,
        "fee": to_plain(tx.fee),
        "gas_limit": tx.gas_limit,
        "messages": [plain_message(message) for message in tx.messages],
    }


def plain_message(message: Message) -> dict[str, Any]:
    return {"@type": type_url(message), **to_plain(message)}


def plain_event(event: Event) -> list[Any]:
    return [event.number, event.type, *(f"{key}={value}" for key, value in event.attributes)]


@cache
def play() -> tuple[Market, RecordedChain]:
    """Return the market after the whole script; every message type has succeeded in it at least once."""
    market = Market(
        PARAMS,
        bidders=("v0", "v1"),
        consumers=("carol", "dave"),
        checked=False,
        chain=RecordedChain,
    )
    chain = market.chain
    assert isinstance(chain, RecordedChain)
    _registry(market)
    _refusals(market)
    order_id = _matched_again(market)
    _rejected(market, order_id)
    _settled(market, order_id)
    _bids_and_cancel(market)
    _stopped(market)
    _stopped_by_job(market)
    _leave(market)
    _staking(market)
    _governance(market)
    return market, chain


def build() -> Any:
    """Return the genesis and the blocks of the scripted market."""
    _, chain = play()
    return {
        "genesis": to_plain(chain.genesis),
        "genesis_app_hash": chain.first_root,
        "genesis_validators": to_plain(chain.first_validators),
        "blocks": chain.blocks,
    }


def _registry(market: Market) -> None:
    """Several messages of one signer in one transaction, an endpoint, a certificate, a key that comes and goes."""
    chain = market.chain
    coins = (Coin(DENOM, 5_000),)
    chain.ok(chain.tx(MsgSend("carol", "dave", coins), MsgSend("carol", "new account", coins)))
    chain.ok(
        MsgSetEndpoint("v0", "192.0.2.7:7430", b"certificate of v0"),
        MsgCertifyProvider("v0", "v0p0", "cpu", 5 * 10**8, 10**9, 10**7, 600),
    )
    key = pub_key("another beacon key")
    proof = sign(key, possession_sign_bytes(CHAIN_ID, "v3", key))
    chain.ok(MsgSetBeaconKey("v3", key, proof), MsgRevokeBeaconKey("v3", key))


def _staking(market: Market) -> None:
    """A new validator, and coins that come, move, leave and return."""
    chain = market.chain
    chain.ok(
        create("dave", 5 * ASSAY, description=Description("a newcomer")),
        edit("v2", description=Description("another name")),
    )
    chain.ok(delegate("carol", "v2", 9 * ASSAY))
    chain.ok(redelegate("carol", "v2", "v3", 4 * ASSAY), undelegate("carol", "v2", 3 * ASSAY))
    chain.ok(cancel("carol", "v2", ASSAY, chain.height))
    chain.ok(undelegate("dave", "dave", 5 * ASSAY))


def _governance(market: Market) -> None:
    """A proposal that changes a parameter, its deposits and votes, and one that no one supports."""
    chain = market.chain
    messages = (change("registry", "jail_time", 77),)
    chain.ok(propose(*messages, proposer="carol", deposit=5 * ASSAY), propose(proposer="dave", deposit=3 * ASSAY))
    chain.ok(deposit("carol", 3 * ASSAY), OldMsgDeposit(1, "carol", (Coin(DENOM, 2 * ASSAY),)))
    chain.ok(vote("v0", YES), OldMsgVote(1, "v1", YES))
    parts = (WeightedVoteOption(NO, "0.25"), WeightedVoteOption(ABSTAIN, "0.75"))
    old = (OldWeightedVoteOption(YES, ONE // 2), OldWeightedVoteOption(VETO, ONE // 2))
    chain.ok(MsgVoteWeighted(1, "v2", parts, ""), OldMsgVoteWeighted(1, "carol", old))
    chain.ok(undelegate("carol", "v2", ASSAY))
    end_voting(chain)
    chain.block()


def _refusals(market: Market) -> None:
    """What is refused before and in a handler, and what was no transaction."""
    chain = market.chain
    send = MsgSend("carol", "dave", (Coin(DENOM, 1),))
    chain.block(
        chain.tx(send, sequence=99),
        chain.tx(send, gas_limit=1),
        chain.tx(send, fee=0),
        replace(send, from_address="dave", amount=(Coin(DENOM, 10**15),)),
        Refusal(TX_DECODE, "tx", "is empty", "send a signed transaction"),
    )


def _matched_again(market: Market) -> bytes:
    """An order that the cheapest validator declines; it has another cheap bid, but the next validator is asked."""
    market.chain.ok(*[bid("v0", price=PRICE // 2)] * 2)
    order_id = market.submit(submit("carol", deposit=400_000))
    first = market.leg(order_id)
    reason = int(LegEnd.DECLINED_NO_CAPACITY)
    market.chain.ok(MsgDeclineOrder(first.validator, order_id, first.number, reason))
    market.auction()
    second = market.leg(order_id)
    assert (first.validator, second.validator) == ("v0", "v1")
    market.accept(order_id)
    return order_id


def _rejected(market: Market, order_id: bytes) -> None:
    """A round whose shares are rejected, the first one rightly and the second one wrongly; both are done again."""
    chain, validator = market.chain, market.leg(order_id).validator
    first, second = market.trace(order_id, 0, work="made up"), market.trace(order_id, 1)
    market.commit(order_id, first, second)
    one, other = market.clusters[validator]
    again = market.trace(order_id, 0, issue=2, provider=other)
    market.commit(order_id, again, reject=[(first.ref, int(ShareReason.SEGMENT_MISMATCH))])
    third = market.trace(order_id, 1, issue=2, provider=one)
    late = market.trace(order_id, 1, issue=3, provider=one)
    market.commit(order_id, third, late, reject=[(second.ref, int(ShareReason.NO_ANSWER))])
    market.traces[order_id, third.claim.leg, 0, third.ref] = third
    market.wait_drawn(order_id)
    chain.ok(*market.close_messages(order_id))


def _settled(market: Market, order_id: bytes) -> None:
    """One seat is silent and replaced; then everything goes right until the last window is over."""
    market.wait_stage(order_id)
    market.say(order_id, {market.seated(order_id)[0]: market.answers(order_id)})
    market.wait_stage(order_id, stage=2)
    right = market.answers(order_id)
    market.say(order_id, dict.fromkeys(market.seated(order_id, stage=2), right))
    market.settle(order_id)


def _bids_and_cancel(market: Market) -> None:
    """Bids placed, changed and withdrawn, and an order that none of them takes."""
    chain = market.chain
    (_, bid_id), *_ = chain.ok(bid("v2", price=2 * PRICE, regions=("de", "fr"), min_work=1_000)).tx_results[0].responses
    wanted = Conditions(device_class="cpu", memory=1, regions=("de",), tiers=("exact",))
    order_id = market.submit(submit("dave", price_limit=PRICE // 2, conditions=wanted))
    chain.ok(MsgChangeBid("v2", bid_id, PRICE, 10**11, 5_000))
    chain.ok(MsgCancelOrder("dave", order_id), MsgWithdrawBid("v2", bid_id))


def _stopped(market: Market) -> None:
    """A running order with a share that was rejected, which its validator gives up."""
    order_id = market.run(submit("dave", rematch=False))
    trace = market.trace(order_id)
    market.commit(order_id, trace)
    market.commit(order_id, reject=[(trace.ref, int(ShareReason.UPDATE_MISMATCH))])
    leg = market.leg(order_id)
    market.chain.ok(MsgStopOrder(leg.validator, order_id, leg.number))


def _stopped_by_job(market: Market) -> None:
    """An order whose job has no result in its first round: in one slot at once, in the other one later on."""
    order_id = market.run(submit("dave", rematch=False))
    market.stop_round(order_id, 1, 0)
    market.answer_all(order_id, 0)
    market.chain.pass_time(market.order(order_id).window + 2)
    market.pass_handover(order_id)


def _leave(market: Market) -> None:
    """A provider is dismissed, another one leaves with its bond, in two parts that arrive one after the other."""
    market.chain.ok(MsgDismissProvider("v3", "v3p0"))
    market.chain.ok(MsgLeaveCluster("v3p1"), MsgWithdrawBond("v3p1", 1_000))
    market.chain.ok(MsgWithdrawBond("v3p1", BOND - 1_000))
    # With blocks two seconds apart, the first part is due in a block of its own.
    market.chain.block()
    market.chain.pass_time(PARAMS.of(LedgerParams).bond_wait + 2)
