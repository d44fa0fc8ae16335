"""Messages that the gov component handles. Those of the Cosmos SDK have the fields of its protobuf messages."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, ClassVar

from domain.bounds import Address, Length, Name, Number, Pattern
from domain.errors import INVALID_COINS
from domain.gov.records import Metadata, Summary, Title, VoteOption
from domain.ledger.records import Coin
from domain.messages import Message
from domain.readable import Readable
from domain.staking.records import Rate

MESSAGES_MAX = 8
"""Largest number of messages of a proposal."""
CHANGES_MAX = 64
"""Largest number of parameters that one message changes."""

Coins = Annotated[tuple[Coin, ...], Length(1, 1, INVALID_COINS)]
Weight = Annotated[
    str, Pattern("a weight", r"0\.[0-9]{1,18}|1(?:\.0{1,18})?", "write a decimal number up to 1, for example 0.5")
]


@dataclass(frozen=True, slots=True)
class MsgSubmitProposal(Message):
    """Propose that the chain executes messages of governance. A proposal without messages is a text.

    Voting begins when the deposits reach ``min_deposit``.
    """

    URL: ClassVar[str] = "/cosmos.gov.v1.MsgSubmitProposal"
    SIGNER: ClassVar[str] = "proposer"
    GAS_EXTRA: ClassVar[int] = 4
    INNER: ClassVar[str] = "messages"
    messages: Annotated[tuple[Message, ...], Length(0, MESSAGES_MAX)]
    initial_deposit: Coins
    proposer: Address
    metadata: Metadata
    title: Title
    summary: Summary
    expedited: bool


@dataclass(frozen=True, slots=True)
class MsgDeposit(Message):
    """Add to the deposits of a proposal whose deposit period or voting lasts."""

    URL: ClassVar[str] = "/cosmos.gov.v1.MsgDeposit"
    SIGNER: ClassVar[str] = "depositor"
    GAS_EXTRA: ClassVar[int] = 2
    proposal_id: Number
    depositor: Address
    amount: Coins


@dataclass(frozen=True, slots=True)
class MsgVote(Message):
    """Vote on a proposal, or change the vote."""

    URL: ClassVar[str] = "/cosmos.gov.v1.MsgVote"
    SIGNER: ClassVar[str] = "voter"
    GAS_EXTRA: ClassVar[int] = 1
    proposal_id: Number
    voter: Address
    option: VoteOption
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class WeightedVoteOption(Readable):
    """An option, and the part of the stake that is for it, as a decimal number.

    Example::

        assay.WeightedVoteOption(option=assay.VoteOption.NO, weight="0.5")
    """

    option: VoteOption
    weight: Weight


@dataclass(frozen=True, slots=True)
class MsgVoteWeighted(Message):
    """Divide a vote between options. The weights add up to 1."""

    URL: ClassVar[str] = "/cosmos.gov.v1.MsgVoteWeighted"
    SIGNER: ClassVar[str] = "voter"
    GAS_EXTRA: ClassVar[int] = 1
    proposal_id: Number
    voter: Address
    options: Annotated[tuple[WeightedVoteOption, ...], Length(1, 4)]
    metadata: Metadata


# --- messages that older wallets send --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OldMsgDeposit(Message):
    """A deposit in the form of ``cosmos.gov.v1beta1``."""

    URL: ClassVar[str] = "/cosmos.gov.v1beta1.MsgDeposit"
    SIGNER: ClassVar[str] = "depositor"
    GAS_EXTRA: ClassVar[int] = 2
    proposal_id: Number
    depositor: Address
    amount: Coins


@dataclass(frozen=True, slots=True)
class OldMsgVote(Message):
    """A vote in the form of ``cosmos.gov.v1beta1``."""

    URL: ClassVar[str] = "/cosmos.gov.v1beta1.MsgVote"
    SIGNER: ClassVar[str] = "voter"
    GAS_EXTRA: ClassVar[int] = 1
    proposal_id: Number
    voter: Address
    option: VoteOption


@dataclass(frozen=True, slots=True)
class OldWeightedVoteOption(Readable):
    """An option, and the part of the stake that is for it (units of 10^-18).

    Example::

        assay.OldWeightedVoteOption(option=assay.VoteOption.NO, weight=5 * 10**17)
    """

    option: VoteOption
    weight: Rate


@dataclass(frozen=True, slots=True)
class OldMsgVoteWeighted(Message):
    """A divided vote in the form of ``cosmos.gov.v1beta1``."""

    URL: ClassVar[str] = "/cosmos.gov.v1beta1.MsgVoteWeighted"
    SIGNER: ClassVar[str] = "voter"
    GAS_EXTRA: ClassVar[int] = 1
    proposal_id: Number
    voter: Address
    options: Annotated[tuple[OldWeightedVoteOption, ...], Length(1, 4)]


# --- messages of proposals -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ParamChange(Readable):
    """A parameter of a component, and its new value.

    Example::

        assay.ParamChange(component="market", name="ttl_max", value=86_400)
    """

    component: Name
    name: Name
    value: Number


@dataclass(frozen=True, slots=True)
class MsgUpdateParams(Message):
    """Change parameters from the next block on. Only a proposal can have this message."""

    URL: ClassVar[str] = "/assay.gov.v1.MsgUpdateParams"
    SIGNER: ClassVar[str] = "authority"
    GAS_ITEMS: ClassVar[Mapping[str, int]] = MappingProxyType({"changes": 1})
    authority: Address
    changes: Annotated[tuple[ParamChange, ...], Length(1, CHANGES_MAX)]
