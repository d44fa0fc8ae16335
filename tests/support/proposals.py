"""Proposals on chains in memory."""

from typing import Any

from chain.state_machine.context import PARAMS
from chain.state_machine.gov.tables import PROPOSALS
from chain.state_machine.gov.votes import compute_tally
from domain.amount import ASSAY
from domain.gov.messages import MsgDeposit, MsgSubmitProposal, MsgUpdateParams, MsgVote, ParamChange
from domain.gov.moves import GOV_POT
from domain.gov.records import Proposal, Tally, VoteOption
from domain.messages import Message
from domain.params import Params
from tests.support.chain_harness import Chain, make_genesis
from tests.support.stakes import coin, params

GOV = GOV_POT.address
MIN_DEPOSIT = 10 * ASSAY
VOTING = 60
PEOPLE = ("alice", "bob", "carol")
VALIDATORS = ("v0", "v1", "v2")
YES, ABSTAIN, NO, VETO = VoteOption


def make_chain(**changes: int) -> Chain:
    """Return a chain with three validators of equal stake and three accounts."""
    return Chain(make_genesis(PEOPLE, VALIDATORS, params(**changes)))


def change(component: str, name: str, value: int, **more: Any) -> MsgUpdateParams:
    """Return the message of a proposal that changes a parameter."""
    return MsgUpdateParams(**{"authority": GOV, "changes": (ParamChange(component, name, value),)} | more)


def propose(*messages: Message, proposer: str = "alice", deposit: int = MIN_DEPOSIT, **more: Any) -> MsgSubmitProposal:
    fields: dict[str, Any] = {
        "messages": messages,
        "initial_deposit": (coin(deposit),),
        "proposer": proposer,
        "metadata": "",
        "title": "A title",
        "summary": "First line\nsecond line",
        "expedited": False,
    }
    return MsgSubmitProposal(**fields | more)


def deposit(depositor: str, amount: int, proposal: int = 1) -> MsgDeposit:
    return MsgDeposit(proposal, depositor, (coin(amount),))


def vote(voter: str, option: VoteOption = YES, proposal: int = 1) -> MsgVote:
    return MsgVote(proposal, voter, option, "")


def found(chain: Chain, proposal: int = 1) -> Proposal:
    return PROPOSALS.must(chain.overlay(), proposal)


def tally_of(chain: Chain, proposal: int = 1) -> Tally:
    """Return the tally as it would be now."""
    return compute_tally(chain.overlay(), proposal)


def in_force(chain: Chain) -> Params:
    return PARAMS.get(chain.overlay())


def pass_proposal(chain: Chain, *messages: Message, proposal: int = 1) -> None:
    """Propose messages, let all validators vote for them, and let the voting end."""
    chain.ok(propose(*messages))
    chain.ok(*(vote(name, YES, proposal) for name in VALIDATORS))
    end_voting(chain, proposal)


def end_voting(chain: Chain, proposal: int = 1) -> None:
    """Let the voting on a proposal end."""
    chain.pass_until(found(chain, proposal).voting_until)
    chain.block()
