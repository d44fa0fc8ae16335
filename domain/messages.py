"""Messages that change the state, as domain values; field names equal those of the protobuf messages.

``SIGNER`` names the field whose account must sign: the account whose money or duty the message touches.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from domain.bounds import Address, Length
from domain.errors import LIMIT_REACHED
from domain.limits import SHARES_PER_MESSAGE_MAX

AT_ONCE = Length(0, SHARES_PER_MESSAGE_MAX, LIMIT_REACHED)


class Message:
    """What all messages say of themselves.

    ``URL`` is the type url on the wire, ``SIGNER`` the field whose account must sign. Gas is counted in items: what
    costs about as much as another signature. A message has ``GAS_EXTRA`` of them, and for each entry of a field in
    ``GAS_ITEMS`` as many as stand there.
    """

    __slots__ = ()
    URL: ClassVar[str]
    SIGNER: ClassVar[str]
    GAS_EXTRA: ClassVar[int] = 0
    GAS_ITEMS: ClassVar[Mapping[str, int]] = MappingProxyType({})


def signer_of(message: Message) -> str:
    """Return the address that must have signed the transaction."""
    address: Address = getattr(message, message.SIGNER)
    return address
