"""``assay tx gov`` and ``assay query gov``: proposals, deposits and votes. Options have the names of the Cosmos SDK."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.arguments import AMOUNT, DURATION, AmountCommand
from assay.cli.attest import policy_messages
from assay.cli.context import CommandContext, common_options
from assay.cli.cosmos import (
    Answer,
    ask,
    coins_text,
    page_options,
    percent_text,
    show_params,
    show_rows,
    time_text,
)
from assay.cli.credential import FILE
from assay.cli.errors import WrongUsage
from assay.cli.output import money
from assay.cli.transacting import TxOptions, transact, tx_options

if TYPE_CHECKING:
    from domain.ledger.records import Coin
    from domain.messages import Message

OPTIONS = ("yes", "abstain", "no", "no_with_veto")
_SERVICE = "/cosmos.gov.v1.Query/"
PROPOSAL = click.IntRange(1, 2**63 - 1)


@click.group(help="Propose changes of the chain, deposit for proposals, and vote.")
def command() -> None:
    """Group of the transactions of governance."""


@click.group(help="Proposals, their tallies, and the parameters of governance.")
def queries() -> None:
    """Group of the queries of governance."""


# --- proposals -----------------------------------------------------------------------------------


class ChangeParam(click.ParamType[tuple[str, str, int]]):
    """A parameter and its new value: ``market.ttl_max=86400``."""

    name = "change"

    def convert(
        self, value: str | tuple[str, str, int], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str, int]:
        """Return component, name and value; raise a usage error for any other text."""
        if isinstance(value, tuple):
            return value
        where, _, number = value.partition("=")
        component, _, name = where.partition(".")
        if not (component and name and number.isascii() and number.isdigit() and len(number) <= 20):
            self.fail(f"{value!r} is not a change; write it like market.ttl_max=86400", param, ctx)
        return component, name, int(number)


@command.command(
    "draft-proposal",
    help="Write the file of a proposal, which `assay tx gov submit-proposal` takes."
    "\n\nExample: assay tx gov draft-proposal draft.json --title 'Longer orders' --change market.ttl_max=864000",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--title", required=True, help="Title of the proposal.")
@click.option("--summary", help="Reason for the proposal.  [the title]")
@click.option("--deposit", type=AMOUNT, help="Your deposit.  [the chain's `min_deposit`]")
@click.option("--change", "changes", type=ChangeParam(), multiple=True, help="New value: component.parameter=value.")
@click.option(
    "--add-policy",
    type=(str, FILE),
    metavar="NAME FILE",
    help="Policy about evidence to add, and its file.",
)
@click.option(
    "--valid-for", type=DURATION, default="30d", show_default=True, help="Time for which its credentials are valid."
)
@click.option("--withdraw-policy", "withdrawn", multiple=True, help="Name of a policy about evidence to withdraw.")
@common_options
def draft_proposal(
    context: CommandContext,
    file: Path,
    title: str,
    summary: str | None,
    deposit: int | None,
    changes: tuple[tuple[str, str, int], ...],
    add_policy: tuple[str, Path] | None,
    valid_for: int,
    withdrawn: tuple[str, ...],
) -> None:
    """Write a proposal that changes parameters or policies, or a text if there are no changes."""
    from cosmpy.protos.cosmos.gov.v1.query_pb2 import QueryParamsRequest, QueryParamsResponse

    from domain.genesis import DENOM
    from domain.gov.messages import MsgUpdateParams, ParamChange
    from domain.gov.moves import GOV_POT

    if deposit is None:
        params = ask(context, f"{_SERVICE}Params", QueryParamsRequest(params_type="deposit"), QueryParamsResponse)
        deposit = int(params["params"]["min_deposit"][0]["amount"])
    messages: list[Message] = []
    if changes:
        parts = tuple(ParamChange(one, name, value) for one, name, value in changes)
        messages.append(MsgUpdateParams(authority=GOV_POT.address, changes=parts))
    messages += policy_messages(add_policy, valid_for, withdrawn)
    document = {
        "messages": [_plain(each) for each in messages],
        "metadata": "",
        "deposit": f"{deposit}{DENOM}",
        "title": title,
        "summary": summary or title,
    }
    file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    context.output.result({"file": str(file)}, f"wrote {file}; send it with: assay tx gov submit-proposal {file}")


@command.command(
    "submit-proposal",
    help="Make a proposal from a file, which `assay tx gov draft-proposal` writes."
    "\n\nExample: assay tx gov submit-proposal draft.json --from alice",
)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@tx_options
@common_options
def submit_proposal(context: CommandContext, file: Path, options: TxOptions) -> None:
    """Send the proposal in a file."""
    from domain.gov.messages import MsgSubmitProposal

    document = _read(file)
    messages = tuple(_message(part, file) for part in document.get("messages", []))
    coins = AMOUNT.convert(document.get("deposit", ""), None, None)
    transact(
        context,
        options,
        lambda address: (
            MsgSubmitProposal(
                messages=messages,
                initial_deposit=(_coin(coins),),
                proposer=address,
                metadata=document.get("metadata", ""),
                title=document.get("title", ""),
                summary=document.get("summary", ""),
                expedited=bool(document.get("expedited", False)),
            ),
        ),
    )


def _read(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        document = None
    texts = ("title", "summary", "deposit", "metadata")
    is_proposal = isinstance(document, dict) and isinstance(document.get("messages", []), list)
    if not is_proposal or not all(isinstance(document.get(name, ""), str) for name in texts):
        raise WrongUsage(f"{file} is not the JSON of a proposal", "write one with `assay tx gov draft-proposal`")
    known: dict[str, Any] = document
    return known


def _plain(message: "Message") -> dict[str, Any]:
    """Return a message as JSON, in which ``@type`` is its type url."""
    from google.protobuf.json_format import MessageToDict

    from domain.bounds import check
    from wire.messages import to_proto

    check(message)
    return MessageToDict(to_proto(message), preserving_proto_field_name=True)


def _message(part: Any, file: Path) -> "Message":
    """Return a message from its JSON, in which ``@type`` is its type url."""
    from google.protobuf.any_pb2 import Any as AnyProto
    from google.protobuf.json_format import ParseDict, ParseError

    from domain.errors import Refusal
    from wire.messages import from_bytes

    try:
        packed = ParseDict(part, AnyProto())
        return from_bytes(packed.type_url, packed.value)
    except (ParseError, TypeError, AttributeError) as error:
        raise WrongUsage(f"a message in {file} is not valid: {error}", "correct it") from None
    except Refusal as refusal:
        raise WrongUsage(f"a message in {file} is not valid: {refusal}", refusal.remedy) from None


@command.command(
    cls=AmountCommand,
    help="Deposit coins for a proposal.\n\nExample: assay tx gov deposit 1 100ASSAY --from alice",
)
@click.argument("proposal", type=PROPOSAL)
@click.argument("coins", type=AMOUNT)
@tx_options
@common_options
def deposit(context: CommandContext, proposal: int, coins: int, options: TxOptions) -> None:
    """Deposit coins."""
    from domain.gov.messages import MsgDeposit

    transact(context, options, lambda address: (MsgDeposit(proposal, address, (_coin(coins),)),))


@command.command(help="Vote on a proposal, or change your vote.\n\nExample: assay tx gov vote 1 yes --from alice")
@click.argument("proposal", type=PROPOSAL)
@click.argument("option", type=click.Choice(OPTIONS))
@click.option("--metadata", default="", help="A note about the vote.")
@tx_options
@common_options
def vote(context: CommandContext, proposal: int, option: str, metadata: str, options: TxOptions) -> None:
    """Vote with the whole stake."""
    from domain.gov.messages import MsgVote
    from domain.gov.records import VoteOption

    transact(
        context,
        options,
        lambda address: (
            MsgVote(proposal_id=proposal, voter=address, option=VoteOption[option.upper()], metadata=metadata),
        ),
    )


@command.command(
    "weighted-vote",
    help="Divide your vote between options.\n\nExample: assay tx gov weighted-vote 1 yes=0.6,no=0.4 --from alice",
)
@click.argument("proposal", type=PROPOSAL)
@click.argument("parts")
@click.option("--metadata", default="", help="A note about the vote.")
@tx_options
@common_options
def weighted_vote(context: CommandContext, proposal: int, parts: str, metadata: str, options: TxOptions) -> None:
    """Vote with parts of the stake."""
    from domain.gov.messages import MsgVoteWeighted, WeightedVoteOption
    from domain.gov.records import VoteOption

    pairs = [part.partition("=") for part in parts.split(",")]
    if not all(option in OPTIONS and weight for option, _, weight in pairs):
        raise WrongUsage(f"{parts!r} is not a divided vote", "write it like yes=0.6,no=0.4")
    divided = tuple(WeightedVoteOption(VoteOption[option.upper()], weight) for option, _, weight in pairs)
    transact(
        context,
        options,
        lambda address: (MsgVoteWeighted(proposal_id=proposal, voter=address, options=divided, metadata=metadata),),
    )


def _coin(amount: int) -> "Coin":
    from domain.genesis import DENOM
    from domain.ledger.records import Coin

    return Coin(DENOM, amount)


# --- queries -------------------------------------------------------------------------------------


@queries.command(help="List proposals.\n\nExample: assay query gov proposals --status voting_period")
@click.option(
    "--status",
    type=click.Choice(("deposit_period", "voting_period", "passed", "rejected", "failed")),
    help="Only proposals with this status.",
)
@click.option("--voter", default="", help="Only proposals on which this account votes.")
@click.option("--depositor", default="", help="Only proposals with a deposit of this account.")
@page_options
@common_options
def proposals(context: CommandContext, status: str | None, voter: str, depositor: str, page: dict[str, Any]) -> None:
    """List proposals."""
    from cosmpy.protos.cosmos.gov.v1.query_pb2 import QueryProposalsRequest, QueryProposalsResponse

    from domain.gov.records import ProposalStatus

    number = int(ProposalStatus[status.upper()]) if status else 0
    request = QueryProposalsRequest(proposal_status=number, voter=voter, depositor=depositor, pagination=page)
    answer = ask(context, f"{_SERVICE}Proposals", request, QueryProposalsResponse)
    rows = [
        (each["id"], each["title"], _status_text(each), coins_text(each["total_deposit"]), _end_text(each))
        for each in answer["proposals"]
    ]
    show_rows(context, answer, "Proposals", ("id", "title", "status", "deposit", "ends"), rows)


def _status_text(proposal: Answer) -> str:
    text: str = proposal["status"].removeprefix("PROPOSAL_STATUS_").lower().replace("_", " ")
    return text


def _end_text(proposal: Answer) -> str:
    """Return the time at which the voting ends; before it, the time at which the deposits end."""
    return time_text(proposal["voting_end_time"] or proposal["deposit_end_time"])


@queries.command(help="Show a proposal.\n\nExample: assay query gov proposal 1")
@click.argument("number", type=PROPOSAL)
@common_options
def proposal(context: CommandContext, number: int) -> None:
    """Show a proposal with its messages."""
    from cosmpy.protos.cosmos.gov.v1.query_pb2 import QueryProposalRequest, QueryProposalResponse

    request = QueryProposalRequest(proposal_id=number)
    answer = ask(context, f"{_SERVICE}Proposal", request, QueryProposalResponse)
    found = answer["proposal"]
    rows = [
        ("title", found["title"]),
        ("summary", found["summary"]),
        *((("metadata", found["metadata"]),) if found["metadata"] else ()),
        ("proposer", found["proposer"]),
        ("status", _status_text(found)),
        *((("failed because", found["failed_reason"]),) if found["failed_reason"] else ()),
        ("deposit", coins_text(found["total_deposit"])),
        ("deposits end", time_text(found["deposit_end_time"])),
        ("voting ends", time_text(found["voting_end_time"])),
        *(("does", text) for message in found["messages"] for text in _message_texts(message)),
        *(_tally_rows(found["final_tally_result"]) if found["final_tally_result"] else ()),
    ]
    show_rows(context, answer, f"Proposal {found['id']}", ("what", "value"), rows)


def _message_texts(message: Answer) -> list[str]:
    """Return what a message does: each change of a parameter, or the message's type and fields."""
    if "changes" in message:
        return [f"{each['component']}.{each['name']} = {each['value']}" for each in message["changes"]]
    fields = {name: value for name, value in message.items() if name != "@type"}
    return [f"{message['@type']} {json.dumps(fields)}"]


def _tally_rows(tally: Answer) -> list[tuple[str, str]]:
    return [(option.replace("_", " "), money(int(tally[f"{option}_count"] or 0))) for option in OPTIONS]


@queries.command(help="Count the votes on a proposal.\n\nExample: assay query gov tally 1")
@click.argument("number", type=PROPOSAL)
@common_options
def tally(context: CommandContext, number: int) -> None:
    """Show the tally as it is now, or as it was when the voting ended."""
    from cosmpy.protos.cosmos.gov.v1.query_pb2 import QueryTallyResultRequest, QueryTallyResultResponse

    request = QueryTallyResultRequest(proposal_id=number)
    answer = ask(context, f"{_SERVICE}TallyResult", request, QueryTallyResultResponse)
    show_rows(context, answer, f"Votes on proposal {number}", ("vote", "stake"), _tally_rows(answer["tally"]))


@queries.command(help="List the votes on a proposal.\n\nExample: assay query gov votes 1")
@click.argument("number", type=PROPOSAL)
@page_options
@common_options
def votes(context: CommandContext, number: int, page: dict[str, Any]) -> None:
    """List votes. They are removed when the voting is over."""
    from cosmpy.protos.cosmos.gov.v1.query_pb2 import QueryVotesRequest, QueryVotesResponse

    request = QueryVotesRequest(proposal_id=number, pagination=page)
    answer = ask(context, f"{_SERVICE}Votes", request, QueryVotesResponse)
    rows = [(each["voter"], _vote_text(each["options"]), each["metadata"] or "-") for each in answer["votes"]]
    show_rows(context, answer, f"Votes on proposal {number}", ("voter", "vote", "note"), rows)


def _vote_text(options: list[dict[str, str]]) -> str:
    named = [(each["option"].removeprefix("VOTE_OPTION_").lower().replace("_", " "), each) for each in options]
    if len(named) == 1:
        return named[0][0]
    return ", ".join(f"{name} {percent_text(each['weight'])}" for name, each in named)


@queries.command(help="Show the parameters of governance.\n\nExample: assay query gov params")
@common_options
def params(context: CommandContext) -> None:
    """Show the parameters of governance."""
    from cosmpy.protos.cosmos.gov.v1.query_pb2 import QueryParamsRequest, QueryParamsResponse

    show_params(context, _SERVICE, "Governance", QueryParamsRequest(), QueryParamsResponse)
