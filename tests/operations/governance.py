"""Proposals of every kind of message that only governance sends, and the votes with which most of them pass.

Random proposals hardly ever get enough votes, and their messages would fail. So the validators also vote on proposals
that make sense.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from random import Random

from chain.state_machine.attest.tables import ATTEST_POLICIES
from chain.state_machine.gov.tables import PROPOSALS
from domain.amount import ASSAY
from domain.attest.evidence import Policy
from domain.attest.messages import MsgAddAttestPolicy, MsgWithdrawAttestPolicy
from domain.distribution.messages import MsgCommunityPoolSpend
from domain.events import Event
from domain.genesis import DENOM
from domain.gov.events import ProposalEnded, ProposalSubmitted
from domain.gov.messages import MsgSubmitProposal, MsgUpdateParams, MsgVote, ParamChange
from domain.gov.moves import GOV_POT
from domain.gov.records import ProposalStatus, VoteOption
from domain.ledger.records import Coin
from domain.messages import Message
from domain.vocabulary import MESSAGES
from tests.support.chain_market import Market

PROPOSES = 0.1
"""Chance in a block that an account makes a proposal of this file."""
VOTES = 0.4
"""Chance in a block that a validator votes for a proposal of this file."""
TITLE = "A proposal that makes sense"
_NAMES = {cls.URL: cls.__name__ for cls in MESSAGES}


class Governance:
    """Makes proposals and votes. Each policy that it adds has a name of its own."""

    def __init__(self, market: Market, people: Sequence[str], policy: Policy, dice: Random) -> None:
        """``people`` make proposals, and are paid from the community pool."""
        self.market, self.people, self.policy, self.dice = market, people, policy, dice
        self._policies: list[str] = []

    def messages(self) -> Iterator[Message]:
        """Yield a proposal from time to time, and votes for those that can be voted on."""
        dice, store = self.dice, self.market.chain.overlay()
        if dice.random() < PROPOSES:
            yield MsgSubmitProposal(
                messages=(self._content(),),
                initial_deposit=(Coin(DENOM, 10 * ASSAY),),
                proposer=dice.choice(self.people),
                metadata="",
                title=TITLE,
                summary=TITLE,
                expedited=False,
            )
        for proposal in PROPOSALS.iterate(store):
            if proposal.title != TITLE or proposal.status is not ProposalStatus.VOTING_PERIOD:
                continue
            for name in self.market.validators:
                if dice.random() < VOTES:
                    yield MsgVote(proposal.id, name, VoteOption.YES, "")

    def _content(self) -> Message:
        """Return a message that governance can send; a spending may be more than the pool has."""
        authority, dice, store = GOV_POT.address, self.dice, self.market.chain.overlay()
        live = [name for name in self._policies if (kept := ATTEST_POLICIES.get(store, name)) and not kept.withdrawn_at]
        match dice.randrange(4):
            case 0 if live:
                return MsgWithdrawAttestPolicy(authority, dice.choice(live))
            case 1:
                amount = dice.choice((1, 1, 10**15))
                return MsgCommunityPoolSpend(authority, dice.choice(self.people), (Coin(DENOM, amount),))
            case 2:
                return MsgUpdateParams(authority, (ParamChange("gov", "voting_period", dice.randrange(8, 13)),))
        self._policies.append(f"voted-{len(self._policies)}")
        return MsgAddAttestPolicy(authority, self._policies[-1], self.policy, 40)


def executed(events: Iterable[Event]) -> Iterator[tuple[str, bool]]:
    """Yield each message that governance executed: its kind, and whether its proposal's messages succeeded."""
    contents: dict[str, str] = {}
    for event in events:
        values = dict(event.attributes)
        if event.type == ProposalSubmitted.KIND:
            contents[values["proposal"]] = values["messages"]
        elif event.type == ProposalEnded.KIND and int(values["status"]) != ProposalStatus.REJECTED:
            is_done = int(values["status"]) == ProposalStatus.PASSED
            for message in json.loads(contents[values["proposal"]]):
                yield _NAMES[message["url"]], is_done
