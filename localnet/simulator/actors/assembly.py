"""An assembly: members that propose changes of parameters and vote, while orders run and stake moves."""

from random import Random
from typing import TYPE_CHECKING

from chain.state_machine.gov.votes import list_voting
from chain.state_machine.store import Overlay
from domain.genesis import DENOM
from domain.gov.messages import (
    MsgDeposit,
    MsgSubmitProposal,
    MsgUpdateParams,
    MsgVote,
    MsgVoteWeighted,
    ParamChange,
    WeightedVoteOption,
)
from domain.gov.moves import GOV_POT
from domain.gov.params import GovParams
from domain.gov.records import VoteOption
from domain.ledger.records import Coin
from domain.messages import Message

if TYPE_CHECKING:
    from localnet.simulator.world import World

PAUSE_MS = 700
CHANGES = (
    ("proof", "stand_wait", (1, 3, 600)),
    ("proof", "stand_segments", (1, 8)),
    ("proof", "appeal_wait", (1, 600)),
    ("proof", "include_wait", (1, 600)),
    ("proof", "show_wait", (0, 60)),
    ("proof", "audit_room_bps", (100, 20_000)),
    ("proof", "slash_bps", (0, 1_000)),
    ("disputes", "challenge_reward_bps", (0, 9_999)),
    ("legs", "max_attempts", (1, 5)),
    ("legs", "job_bond_bps", (0, 5_000)),
    ("ledger", "bond_wait", (0, 600)),
    ("registry", "promise_wait", (0, 60)),
    ("staking", "unbonding_time", (5, 40)),
    ("staking", "max_entries", (1, 7)),
    ("staking", "max_validators", (3, 100)),
    ("gov", "voting_period", (3, 8)),
    ("gov", "quorum", (0, 334 * 10**15)),
)
"""Parameters that the assembly changes, each with values that differ much."""


class AssemblyActor:
    """The members of an assembly in a world. Its dice are its own, so that it changes no draw of others."""

    def __init__(self, world: "World", members: tuple[str, ...]) -> None:
        self.world = world
        self.members = (*members, *world.validators)
        self.proposers = members
        self.random = Random(f"assembly {world.setup.seed}")
        self._wait()

    def _wait(self) -> None:
        self.world.clock.after(self.random.randint(PAUSE_MS, 2 * PAUSE_MS), self._act)

    def _act(self) -> None:
        self.world.submit((self._choose(self.world.chain.overlay()),), lambda _: None)
        self._wait()

    def _choose(self, store: Overlay) -> Message:
        voting = list_voting(store)
        if not voting or self.random.randrange(6) == 0:
            return self._propose()
        proposal, name = self.random.choice(voting), self.random.choice(self.members)
        match self.random.randrange(8):
            case 0:
                parts = ("0.3", VoteOption.ABSTAIN), ("0.7", VoteOption.YES)
                options = tuple(WeightedVoteOption(option, weight) for weight, option in parts)
                return MsgVoteWeighted(proposal_id=proposal, voter=name, options=options, metadata="")
            case 1:
                least = self.world.setup.params.of(GovParams).min_deposit // 100
                return MsgDeposit(proposal, self.random.choice(self.proposers), (Coin(DENOM, least),))
            case 2:
                option = self.random.choice(list(VoteOption))
                return MsgVote(proposal_id=proposal, voter=name, option=option, metadata="")
        return MsgVote(proposal_id=proposal, voter=name, option=VoteOption.YES, metadata="")

    def _propose(self) -> Message:
        chosen = self.random.sample(CHANGES, self.random.randint(0, 3))
        changes = tuple(ParamChange(one, name, self.random.choice(values)) for one, name, values in chosen)
        share = self.random.choice((100, 100, 100, 50))
        return MsgSubmitProposal(
            messages=(MsgUpdateParams(GOV_POT.address, changes),) if changes else (),
            initial_deposit=(Coin(DENOM, self.world.setup.params.of(GovParams).min_deposit * share // 100),),
            proposer=self.random.choice(self.proposers),
            metadata="",
            title="A change",
            summary="Values that differ much",
            expedited=False,
        )
