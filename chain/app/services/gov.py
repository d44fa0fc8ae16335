"""``cosmos.gov``: proposals, votes, deposits and the tally, in the versions v1 and v1beta1."""

from collections.abc import Iterator
from typing import Any

from cosmpy.protos.cosmos.base.v1beta1.coin_pb2 import Coin
from cosmpy.protos.cosmos.gov.v1 import gov_pb2 as proto
from cosmpy.protos.cosmos.gov.v1 import query_pb2 as query
from cosmpy.protos.cosmos.gov.v1beta1 import gov_pb2 as old_proto
from cosmpy.protos.cosmos.gov.v1beta1 import query_pb2 as old_query
from google.protobuf.any_pb2 import Any as AnyProto
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from chain.app.services.method import Call, methods
from chain.app.services.pages import page_of_keys
from chain.state_machine.context import HEAD, NS, PARAMS
from chain.state_machine.gov.contents import unpack_messages
from chain.state_machine.gov.tables import DEPOSITS, PROPOSALS, VOTES
from chain.state_machine.gov.votes import compute_tally
from chain.state_machine.tables import number_of
from domain.errors import INVALID_REQUEST, NOT_FOUND, Refusal
from domain.genesis import DENOM
from domain.gov.params import GovParams
from domain.gov.records import Deposit, Proposal, ProposalStatus, Tally, Vote
from wire.address import check_address
from wire.messages import to_proto

_TEXT = "/cosmos.gov.v1beta1.TextProposal"
_STATUSES = {int(status): status for status in ProposalStatus}
_PARAMS_TYPES = ("", "deposit", "voting", "tallying")


def decimal(rate: int) -> str:
    """Return a rate as a decimal number with 18 places."""
    digits = str(rate).rjust(19, "0")
    return f"{digits[:-18]}.{digits[-18:]}"


def _coins(amount: int) -> list[Any]:
    return [Coin(denom=DENOM, amount=str(amount))] if amount else []


def _time(clock: int, call: Call) -> Any:
    """Return the time of a header at which the chain clock showed ``clock``, or will show it if blocks go on."""
    head = HEAD.must(call.store)
    seconds, nanos = divmod(max(0, head.time_ns - head.clock_ns + clock * NS), NS)
    return Timestamp(seconds=seconds, nanos=nanos)


# --- reading -------------------------------------------------------------------------------------


def _find(number: int, call: Call) -> Proposal:
    proposal = PROPOSALS.get(call.store, number)
    if proposal is None:
        reason = f"proposal {number} doesn't exist"
        raise Refusal(NOT_FOUND, "proposal_id", reason, "use the number of a proposal")
    return proposal


def _page_of_proposals(request: Any, call: Call) -> tuple[list[Proposal], Any]:
    wanted = _STATUSES.get(request.proposal_status)
    if wanted is None and request.proposal_status:
        raise Refusal(INVALID_REQUEST, "proposal_status", f"{request.proposal_status} is no status", "leave it out")
    for name in ("voter", "depositor"):
        if getattr(request, name):
            check_address(getattr(request, name), name)

    def rows(after: bytes) -> Iterator[Proposal]:
        for (key,) in PROPOSALS.keys(call.store, after=(number_of(after),) if after else ()):
            number = number_of(key)
            proposal = PROPOSALS.must(call.store, number)
            if wanted not in (None, proposal.status):
                continue
            if request.voter and not VOTES.has(call.store, number, request.voter):
                continue
            if request.depositor and not DEPOSITS.has(call.store, number, request.depositor):
                continue
            yield proposal

    return page_of_keys(rows, lambda proposal: proposal.id.to_bytes(8, "big"), request.pagination)


def _page_of_votes(request: Any, call: Call) -> tuple[list[Vote], Any]:
    number = _find(request.proposal_id, call).id

    def rows(after: bytes) -> Iterator[Vote]:
        for _, voter in VOTES.keys(call.store, number, after=(number, after) if after else ()):
            yield VOTES.must(call.store, number, voter.decode())

    return page_of_keys(rows, lambda vote: vote.voter.encode(), request.pagination)


def _page_of_deposits(request: Any, call: Call) -> tuple[list[Deposit], Any]:
    number = _find(request.proposal_id, call).id

    def rows(after: bytes) -> Iterator[Deposit]:
        for _, depositor in DEPOSITS.keys(call.store, number, after=(number, after) if after else ()):
            yield DEPOSITS.must(call.store, number, depositor.decode())

    return page_of_keys(rows, lambda deposit: deposit.depositor.encode(), request.pagination)


def _find_vote(request: Any, call: Call) -> Vote:
    check_address(request.voter, "voter")
    vote = VOTES.get(call.store, _find(request.proposal_id, call).id, request.voter)
    if vote is None:
        reason = f"voter: {request.voter} not found for proposal: {request.proposal_id}"
        raise Refusal(NOT_FOUND, "voter", reason, "votes are kept until the voting ends")
    return vote


def _find_deposit(request: Any, call: Call) -> Deposit:
    check_address(request.depositor, "depositor")
    deposit = DEPOSITS.get(call.store, _find(request.proposal_id, call).id, request.depositor)
    if deposit is None:
        reason = f"depositer: {request.depositor} not found for proposal: {request.proposal_id}"
        raise Refusal(NOT_FOUND, "depositor", reason, "deposits are kept until the proposal ends")
    return deposit


def _find_tally(request: Any, call: Call) -> Tally:
    proposal = _find(request.proposal_id, call)
    is_voted_on = proposal.status is ProposalStatus.VOTING_PERIOD
    return compute_tally(call.store, proposal.id) if is_voted_on else proposal.tally


def _check_params_type(request: Any) -> None:
    if request.params_type not in _PARAMS_TYPES:
        remedy = f"use one of {', '.join(_PARAMS_TYPES[1:])}, or leave it out"
        raise Refusal(INVALID_REQUEST, "params_type", f"{request.params_type[:40]!r} is no type", remedy)


# --- v1 ------------------------------------------------------------------------------------------


def _proposal_proto(proposal: Proposal, call: Call) -> Any:
    started = proposal.status is not ProposalStatus.DEPOSIT_PERIOD
    return proto.Proposal(
        id=proposal.id,
        messages=[to_proto(message) for message in unpack_messages(proposal.messages)],
        status=int(proposal.status),
        final_tally_result=_tally_proto(proposal.tally),
        submit_time=_time(proposal.submitted_at, call),
        deposit_end_time=_time(proposal.deposit_until, call),
        total_deposit=_coins(proposal.deposit),
        voting_start_time=_time(proposal.voting_from, call) if started else None,
        voting_end_time=_time(proposal.voting_until, call) if started else None,
        metadata=proposal.metadata,
        title=proposal.title,
        summary=proposal.summary,
        proposer=proposal.proposer,
        failed_reason=proposal.reason,
    )


def _tally_proto(tally: Tally) -> Any:
    return proto.TallyResult(
        yes_count=str(tally.yes),
        abstain_count=str(tally.abstain),
        no_count=str(tally.no),
        no_with_veto_count=str(tally.no_with_veto),
    )


def _vote_proto(vote: Vote) -> Any:
    options = [proto.WeightedVoteOption(option=int(part.option), weight=decimal(part.weight)) for part in vote.options]
    return proto.Vote(proposal_id=vote.proposal, voter=vote.voter, options=options, metadata=vote.metadata)


def _deposit_proto(deposit: Deposit) -> Any:
    return proto.Deposit(proposal_id=deposit.proposal, depositor=deposit.depositor, amount=_coins(deposit.amount))


def _proposal(request: Any, call: Call) -> Any:
    return query.QueryProposalResponse(proposal=_proposal_proto(_find(request.proposal_id, call), call))


def _proposals(request: Any, call: Call) -> Any:
    page, pagination = _page_of_proposals(request, call)
    return query.QueryProposalsResponse(proposals=[_proposal_proto(one, call) for one in page], pagination=pagination)


def _vote(request: Any, call: Call) -> Any:
    return query.QueryVoteResponse(vote=_vote_proto(_find_vote(request, call)))


def _votes(request: Any, call: Call) -> Any:
    page, pagination = _page_of_votes(request, call)
    return query.QueryVotesResponse(votes=map(_vote_proto, page), pagination=pagination)


def _deposit(request: Any, call: Call) -> Any:
    return query.QueryDepositResponse(deposit=_deposit_proto(_find_deposit(request, call)))


def _deposits(request: Any, call: Call) -> Any:
    page, pagination = _page_of_deposits(request, call)
    return query.QueryDepositsResponse(deposits=map(_deposit_proto, page), pagination=pagination)


def _tally(request: Any, call: Call) -> Any:
    return query.QueryTallyResultResponse(tally=_tally_proto(_find_tally(request, call)))


def _params(request: Any, call: Call) -> Any:
    """Return all parameters. The parts that older clients ask for by ``params_type`` are there too."""
    _check_params_type(request)
    params = PARAMS.get(call.store).of(GovParams)
    quorum, threshold, veto = map(decimal, (params.quorum, params.threshold, params.veto_threshold))
    return query.QueryParamsResponse(
        voting_params=proto.VotingParams(voting_period=Duration(seconds=params.voting_period)),
        deposit_params=proto.DepositParams(
            min_deposit=_coins(params.min_deposit), max_deposit_period=Duration(seconds=params.max_deposit_period)
        ),
        tally_params=proto.TallyParams(quorum=quorum, threshold=threshold, veto_threshold=veto),
        params=proto.Params(
            min_deposit=_coins(params.min_deposit),
            max_deposit_period=Duration(seconds=params.max_deposit_period),
            voting_period=Duration(seconds=params.voting_period),
            quorum=quorum,
            threshold=threshold,
            veto_threshold=veto,
            min_initial_deposit_ratio=decimal(params.min_initial_deposit_ratio),
            burn_vote_quorum=True,
            burn_vote_veto=True,
            min_deposit_ratio="0.010000000000000000",
        ),
    )


def _constitution(_: Any, __: Call) -> Any:
    return query.QueryConstitutionResponse()


METHODS = methods(
    query.DESCRIPTOR.services_by_name["Query"],
    {
        "Constitution": _constitution,
        "Proposal": _proposal,
        "Proposals": _proposals,
        "Vote": _vote,
        "Votes": _votes,
        "Params": _params,
        "Deposit": _deposit,
        "Deposits": _deposits,
        "TallyResult": _tally,
    },
)


# --- v1beta1, which CosmJS asks ------------------------------------------------------------------


def _old_proposal_proto(proposal: Proposal, call: Call) -> Any:
    """Return a proposal as a text: v1beta1 has no form for the messages of a proposal."""
    text = old_proto.TextProposal(title=proposal.title, description=proposal.summary)
    new = _proposal_proto(proposal, call)
    return old_proto.Proposal(
        proposal_id=proposal.id,
        content=AnyProto(type_url=_TEXT, value=text.SerializeToString()),
        status=int(proposal.status),
        final_tally_result=_old_tally_proto(proposal.tally),
        submit_time=new.submit_time,
        deposit_end_time=new.deposit_end_time,
        total_deposit=new.total_deposit,
        voting_start_time=new.voting_start_time,
        voting_end_time=new.voting_end_time,
    )


def _old_tally_proto(tally: Tally) -> Any:
    return old_proto.TallyResult(
        yes=str(tally.yes), abstain=str(tally.abstain), no=str(tally.no), no_with_veto=str(tally.no_with_veto)
    )


def _old_vote_proto(vote: Vote) -> Any:
    options = [old_proto.WeightedVoteOption(option=int(part.option), weight=str(part.weight)) for part in vote.options]
    option = int(vote.options[0].option) if len(vote.options) == 1 else 0
    return old_proto.Vote(proposal_id=vote.proposal, voter=vote.voter, option=option, options=options)


def _old_deposit_proto(deposit: Deposit) -> Any:
    return old_proto.Deposit(proposal_id=deposit.proposal, depositor=deposit.depositor, amount=_coins(deposit.amount))


def _old_proposal(request: Any, call: Call) -> Any:
    return old_query.QueryProposalResponse(proposal=_old_proposal_proto(_find(request.proposal_id, call), call))


def _old_proposals(request: Any, call: Call) -> Any:
    page, pagination = _page_of_proposals(request, call)
    proposals = [_old_proposal_proto(one, call) for one in page]
    return old_query.QueryProposalsResponse(proposals=proposals, pagination=pagination)


def _old_vote(request: Any, call: Call) -> Any:
    return old_query.QueryVoteResponse(vote=_old_vote_proto(_find_vote(request, call)))


def _old_votes(request: Any, call: Call) -> Any:
    page, pagination = _page_of_votes(request, call)
    return old_query.QueryVotesResponse(votes=map(_old_vote_proto, page), pagination=pagination)


def _old_deposit(request: Any, call: Call) -> Any:
    return old_query.QueryDepositResponse(deposit=_old_deposit_proto(_find_deposit(request, call)))


def _old_deposits(request: Any, call: Call) -> Any:
    page, pagination = _page_of_deposits(request, call)
    return old_query.QueryDepositsResponse(deposits=map(_old_deposit_proto, page), pagination=pagination)


def _old_tally(request: Any, call: Call) -> Any:
    return old_query.QueryTallyResultResponse(tally=_old_tally_proto(_find_tally(request, call)))


def _old_params(request: Any, call: Call) -> Any:
    """Return all parameters. Rates are bytes with the digits of an integer of 18 decimal places."""
    _check_params_type(request)
    params = PARAMS.get(call.store).of(GovParams)
    return old_query.QueryParamsResponse(
        voting_params=old_proto.VotingParams(voting_period=Duration(seconds=params.voting_period)),
        deposit_params=old_proto.DepositParams(
            min_deposit=_coins(params.min_deposit), max_deposit_period=Duration(seconds=params.max_deposit_period)
        ),
        tally_params=old_proto.TallyParams(
            quorum=b"%d" % params.quorum,
            threshold=b"%d" % params.threshold,
            veto_threshold=b"%d" % params.veto_threshold,
        ),
    )


OLD_METHODS = methods(
    old_query.DESCRIPTOR.services_by_name["Query"],
    {
        "Proposal": _old_proposal,
        "Proposals": _old_proposals,
        "Vote": _old_vote,
        "Votes": _old_votes,
        "Params": _old_params,
        "Deposit": _old_deposit,
        "Deposits": _old_deposits,
        "TallyResult": _old_tally,
    },
)
