"""What a provider needs of the chain, as narrow interfaces (``chain.client`` fits them)."""

from typing import Any, Protocol

from domain.messages import Message
from domain.queries import AccountResponse, OrderResponse, StatusResponse
from domain.records import Provider, Validator


class Chain(Protocol):
    """Reads; every call has a deadline and raises an exception when it fails."""

    def status(self) -> StatusResponse:
        """Where the chain stands."""
        ...

    def order(self, order_id: bytes) -> OrderResponse:
        """An order with all about it."""
        ...

    def account(self, address: str) -> AccountResponse:
        """Balance and bond."""
        ...

    def validator(self, operator: str) -> Validator | None:
        """A validator by its operator address."""
        ...

    def provider(self, address: str, validator: str) -> Provider | None:
        """A provider in the cluster of a validator."""
        ...


class Sender(Protocol):
    """Sends transactions of one key, and waits for them."""

    def send(self, *messages: Message) -> Any:
        """Return when the messages are in a block; raise when they are refused or expire."""
        ...
