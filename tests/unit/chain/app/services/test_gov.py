"""``cosmos.gov`` on a solo node, in the versions v1 and v1beta1."""

from typing import Any

import pytest

from chain.app.services.table import METHODS, Services
from domain.amount import ASSAY
from domain.errors import Refusal
from domain.gov.messages import MsgSubmitProposal, MsgUpdateParams, MsgVoteWeighted, ParamChange, WeightedVoteOption
from domain.gov.moves import GOV_POT
from domain.gov.records import ProposalStatus, VoteOption
from domain.ledger.records import Coin
from domain.messages import Message
from domain.staking.messages import MsgDelegate
from tests.support.solo_node import ALICE, CHAIN_ID, OPERATOR, SoloNode
from wire.messages import from_bytes
from wire.tx import build_tx

GOV, OLD = "/cosmos.gov.v1.Query/", "/cosmos.gov.v1beta1.Query/"
CHANGE = MsgUpdateParams(GOV_POT.address, (ParamChange("market", "ttl_max", 77),))


@pytest.fixture
def services(node: SoloNode) -> Services:
    """Return the services of a node with a proposal that is voted on, and one that waits for deposits."""
    send(node, 0, MsgDelegate(ALICE.address, OPERATOR.address, Coin("uassay", 100)))
    send(node, 1, propose(10 * ASSAY, CHANGE))
    parts = (WeightedVoteOption(VoteOption.YES, "0.75"), WeightedVoteOption(VoteOption.NO, "0.25"))
    send(node, 2, MsgVoteWeighted(1, ALICE.address, parts, "why"))
    send(node, 3, propose(3 * ASSAY))
    return Services(node.app, node.engine)


def propose(deposit: int, *messages: Message) -> MsgSubmitProposal:
    return MsgSubmitProposal(
        messages=messages,
        initial_deposit=(Coin("uassay", deposit),),
        proposer=ALICE.address,
        metadata="",
        title="A title",
        summary="A summary",
        expedited=False,
    )


def send(node: SoloNode, sequence: int, message: Message) -> None:
    raw = build_tx(
        [message],
        ALICE,
        chain_id=CHAIN_ID,
        account_number=0,
        sequence=sequence,
        fee=(Coin("uassay", 5_000),),
        gas_limit=500_000,
    )
    assert node.engine.broadcast_sync(raw).code == 0
    node.engine.make_block()


def ask(services: Services, name: str, path: str = GOV, **fields: Any) -> Any:
    method = METHODS[path + name]
    return method.response.FromString(services.call(method.path, method.request(**fields).SerializeToString()).data)


def test_proposals_and_their_messages(services: Services) -> None:
    first, second = ask(services, "Proposals").proposals
    assert (first.id, first.status, second.status) == (1, 2, 1)
    (packed,) = first.messages
    assert from_bytes(packed.type_url, packed.value) == CHANGE
    assert first == ask(services, "Proposal", proposal_id=1).proposal
    assert (first.title, first.summary, first.proposer) == ("A title", "A summary", ALICE.address)
    assert first.voting_end_time.seconds - first.voting_start_time.seconds == 60
    assert not second.HasField("voting_start_time")
    for wanted, found in (
        ({"proposal_status": int(ProposalStatus.DEPOSIT_PERIOD)}, [second]),
        ({"voter": ALICE.address}, [first]),
        ({"depositor": ALICE.address}, [first, second]),
        ({"depositor": OPERATOR.address}, []),
    ):
        assert list(ask(services, "Proposals", **wanted).proposals) == found


def test_votes_deposits_and_the_tally(services: Services) -> None:
    (vote,) = ask(services, "Votes", proposal_id=1).votes
    assert [(part.option, part.weight) for part in vote.options] == [
        (1, "0.750000000000000000"),
        (3, "0.250000000000000000"),
    ]
    assert vote == ask(services, "Vote", proposal_id=1, voter=ALICE.address).vote
    (deposit,) = ask(services, "Deposits", proposal_id=1).deposits
    assert deposit == ask(services, "Deposit", proposal_id=1, depositor=ALICE.address).deposit
    assert deposit.amount[0].amount == str(10 * ASSAY)
    tally = ask(services, "TallyResult", proposal_id=1).tally
    assert (tally.yes_count, tally.no_count, tally.no_with_veto_count) == ("75", "25", "0")


def test_the_parameters(services: Services) -> None:
    params = ask(services, "Params", params_type="voting").params
    assert (params.quorum, params.threshold) == ("0.334000000000000000", "0.500000000000000000")
    assert params.voting_period.seconds == 60
    assert not ask(services, "Constitution").constitution


def test_the_older_version(services: Services) -> None:
    first, second = ask(services, "Proposals", OLD).proposals
    assert first == ask(services, "Proposal", OLD, proposal_id=1).proposal
    assert (first.proposal_id, second.proposal_id) == (1, 2)
    assert first.content.type_url == "/cosmos.gov.v1beta1.TextProposal"
    (vote,) = ask(services, "Votes", OLD, proposal_id=1).votes
    assert vote == ask(services, "Vote", OLD, proposal_id=1, voter=ALICE.address).vote
    assert vote.options[0].weight == "750000000000000000"
    (deposit,) = ask(services, "Deposits", OLD, proposal_id=1).deposits
    assert deposit == ask(services, "Deposit", OLD, proposal_id=1, depositor=ALICE.address).deposit
    assert ask(services, "TallyResult", OLD, proposal_id=1).tally.yes == "75"
    assert ask(services, "Params", OLD, params_type="tallying").tally_params.quorum == b"334000000000000000"


def test_what_is_not_there(services: Services) -> None:
    with pytest.raises(Refusal, match="proposal 9 doesn't exist"):
        ask(services, "Proposal", proposal_id=9)
    with pytest.raises(Refusal, match="not found for proposal: 1"):
        ask(services, "Vote", proposal_id=1, voter=OPERATOR.address)
    with pytest.raises(Refusal, match="not found for proposal: 1"):
        ask(services, "Deposit", proposal_id=1, depositor=OPERATOR.address)
    with pytest.raises(Refusal, match="is no type"):
        ask(services, "Params", params_type="other")
