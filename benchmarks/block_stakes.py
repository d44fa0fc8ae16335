"""Kinds of blocks for :mod:`benchmarks.blocks`: stakes, their rewards, votes, and what is sent or paid for others."""

from collections.abc import Callable
from itertools import cycle, islice

from benchmarks.block_net import START_NS, Net, key
from benchmarks.figures import Row
from domain.authz.messages import Grant, MsgExec, MsgGrant, SendAuthorization
from domain.block import Misbehaviour, MisbehaviourKind
from domain.distribution.messages import MsgWithdrawDelegatorReward
from domain.feegrant.messages import BasicAllowance, MsgGrantAllowance
from domain.genesis import DENOM
from domain.gov.messages import MsgSubmitProposal, MsgVote
from domain.gov.records import VoteOption
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from domain.limits import MESSAGES_MAX
from domain.messages import Message
from domain.staking.messages import MsgBeginRedelegate, MsgDelegate, MsgUndelegate
from domain.times import NS, Timestamp

PEOPLE = 400
BLOCK = 2_500
"""Messages that are offered to a block, more than it takes."""
_STAKE, _PART = (Coin(DENOM, amount) for amount in (10**9, 10**6))
_OPERATORS = [key(f"v{number}").address for number in range(4)]
_PEOPLE = [key(f"p{number}").address for number in range(PEOPLE)]
_PAIRS = [(person, operator) for operator in _OPERATORS for person in _PEOPLE]


def stakes() -> list[Row]:
    """Measure delegations and what changes them, rewards, and a slash of a validator behind which all of them are."""
    net, rows = Net(people=PEOPLE, changes={"unbonding_time": 300, "evidence_max_age": 300}), []

    def many(case: str, make: Callable[[str, str], Message]) -> None:
        rows.extend(net.measured(case, [net.raw(make(*pair)) for pair in islice(cycle(_PAIRS), BLOCK)]))

    net.paid = 0
    many("delegations", lambda person, operator: MsgDelegate(person, operator, _STAKE))
    _delegate(net)
    net.paid = 0
    many("delegations that grow", lambda person, operator: MsgDelegate(person, operator, _STAKE))
    many("rewards", MsgWithdrawDelegatorReward)
    next_of = dict(zip(_OPERATORS, [*_OPERATORS[1:], _OPERATORS[0]], strict=True))

    def move(person: str, operator: str) -> Message:
        return MsgBeginRedelegate(
            delegator_address=person,
            validator_src_address=operator,
            validator_dst_address=next_of[operator],
            amount=_PART,
        )

    many("redelegations", move)
    many("undelegations", lambda person, operator: MsgUndelegate(person, operator, _PART))
    height, proposer = net.turn
    fault = Misbehaviour(
        kind=MisbehaviourKind.DUPLICATE_VOTE,
        validator=proposer,
        height=height - 1,
        time_ns=net.time_ns,
        power=10**7,
    )
    rows += net.measured("a slash", [], misbehaviours=(fault,))
    rows += net.measured("a slash, the block after", [])
    for _ in range(5):
        net.block(seconds=50)
    return rows + net.measured("undelegations due", [], seconds=60)


def votes() -> list[Row]:
    """Measure votes of people with four delegations each, and the end of a proposal with all of them."""
    net = Net(people=PEOPLE, changes={"voting_period": 120, "min_deposit": 1})
    _delegate(net)
    proposal = MsgSubmitProposal(
        messages=(),
        initial_deposit=(Coin(DENOM, 10**7),),
        proposer=_PEOPLE[0],
        metadata="",
        title="A text",
        summary="Nothing changes",
        expedited=False,
    )
    for _ in range(2):
        net.block(*[proposal] * 10, seconds=0)
    net.paid = 0
    options = cycle(VoteOption)
    ballots = [
        MsgVote(proposal_id=number, voter=person, option=next(options), metadata="")
        for number in range(1, 21)
        for person in _PEOPLE
    ]
    rows = net.measured("votes", [net.estimated(ballot) for ballot in ballots[:BLOCK]])
    for at in range(0, len(ballots), 1_000):
        net.block(*ballots[at : at + 1_000], seconds=0)
    net.paid = 0
    rows += net.measured("votes that change", [net.estimated(ballot) for ballot in ballots[:BLOCK]])
    grown = [MsgDelegate(person, operator, _STAKE) for person, operator in _PAIRS]
    rows += net.measured("delegations of people who voted", [net.estimated(message) for message in grown])
    for _ in range(2):
        net.block(seconds=50)
    rows += net.measured("20 proposals end", [], seconds=60)
    return rows + net.measured("proposals, the block after", [])


def for_others() -> list[Row]:
    """Measure fee grants and authorizations, transactions that use them, and grants that end together."""
    net = Net(people=PEOPLE)
    payer = key("carol").address
    ends = Timestamp(START_NS // NS + 600)
    allowance = BasicAllowance(spend_limit=(Coin(DENOM, 10**9),), expiration=ends)
    send = Grant(SendAuthorization(spend_limit=(Coin(DENOM, 10**9),), allow_list=()), ends)
    net.paid = 0
    rows = net.measured(
        "fee grants", [net.raw(MsgGrantAllowance(payer, key(f"q{at}").address, allowance)) for at in range(BLOCK)]
    )
    rows += net.measured(
        "authorizations", [net.raw(MsgGrant(payer, key(f"q{at}").address, send)) for at in range(BLOCK)]
    )
    for person in _PEOPLE:
        net.block(MsgGrantAllowance(payer, person, allowance), MsgGrant(payer, person, send), seconds=0)
    net.paid = 0
    coin = MsgSend(payer, _PEOPLE[0], (Coin(DENOM, 1),))
    names = islice(cycle([f"p{number}" for number in range(PEOPLE)]), BLOCK)
    raws = [net.raw(MsgSend(key(name).address, _PEOPLE[0], (Coin(DENOM, 1),)), granter="carol") for name in names]
    rows += net.measured("transfers with another payer", raws)
    execs = [MsgExec(person, (coin,) * (MESSAGES_MAX - 1)) for person in _PEOPLE]
    rows += net.measured("transfers for others", [net.raw(message) for message in execs])
    while net.time_ns < ends.ns - 60 * NS:
        net.block(seconds=50)
    return rows + net.measured("grants that end", [], seconds=120)


def _delegate(net: Net) -> None:
    """Let everybody delegate to each validator."""
    net.block(*[MsgDelegate(person, operator, _STAKE) for person, operator in _PAIRS], seconds=0)
