"""Messages that the component of authorizations handles: those of ``cosmos.authz.v1beta1``."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from domain.authz.records import ALLOW_LIST_MAX
from domain.bounds import Address, Length
from domain.errors import INVALID_COINS, INVALID_REQUEST
from domain.feegrant.records import TypeUrl
from domain.ledger.records import Coin
from domain.limits import MESSAGES_MAX
from domain.messages import Message
from domain.times import Timestamp


@dataclass(frozen=True, slots=True)
class GenericAuthorization:
    """An authorization to send messages of a type, without any limit."""

    URL: ClassVar[str] = "/cosmos.authz.v1beta1.GenericAuthorization"
    msg: TypeUrl


@dataclass(frozen=True, slots=True)
class SendAuthorization:
    """An authorization to send coins up to a limit, to anyone or to some accounts."""

    URL: ClassVar[str] = "/cosmos.bank.v1beta1.SendAuthorization"
    spend_limit: Annotated[tuple[Coin, ...], Length(1, 1, INVALID_COINS)]
    allow_list: Annotated[tuple[Address, ...], Length(0, ALLOW_LIST_MAX)]


@dataclass(frozen=True, slots=True)
class Grant:
    """An authorization, and the last time at which it can be used."""

    authorization: GenericAuthorization | SendAuthorization
    expiration: Timestamp | None


@dataclass(frozen=True, slots=True)
class MsgGrant(Message):
    """Let another account send messages of a type for you. It replaces your earlier authorization for this type."""

    URL: ClassVar[str] = "/cosmos.authz.v1beta1.MsgGrant"
    SIGNER: ClassVar[str] = "granter"
    GAS_EXTRA: ClassVar[int] = 2
    granter: Address
    grantee: Address
    grant: Grant


@dataclass(frozen=True, slots=True)
class MsgExec(Message):
    """Send messages for other accounts, which allowed it. Each is done as if its own signer had sent it."""

    URL: ClassVar[str] = "/cosmos.authz.v1beta1.MsgExec"
    SIGNER: ClassVar[str] = "grantee"
    INNER: ClassVar[str] = "msgs"
    grantee: Address
    msgs: Annotated[tuple[Message, ...], Length(1, MESSAGES_MAX, INVALID_REQUEST)]


@dataclass(frozen=True, slots=True)
class MsgRevoke(Message):
    """End an authorization."""

    URL: ClassVar[str] = "/cosmos.authz.v1beta1.MsgRevoke"
    SIGNER: ClassVar[str] = "granter"
    GAS_EXTRA: ClassVar[int] = 1
    granter: Address
    grantee: Address
    msg_type_url: TypeUrl
