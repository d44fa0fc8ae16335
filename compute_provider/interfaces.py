"""What a provider needs of the chain (``chain.client`` fits it), and how it behaves, as narrow interfaces."""

from collections.abc import Sequence
from typing import Any, Protocol

from domain.messages import Message
from domain.queries import AccountResponse, OrderResponse, StatusResponse
from domain.records import Provider, ShareClaim, ShareKey, Validator
from link.types import Leaf, TrainTask


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


class Behaviour(Protocol):
    """What a provider makes of its shares; :class:`Honest` unless somebody hands in another."""

    def worker(self, key: ShareKey) -> Sequence[str]:
        """Return the module, with its arguments, that runs as the worker of a share."""
        ...

    def claim(self, honest: ShareClaim, leaves: Sequence[Leaf]) -> ShareClaim:
        """Return the claim to sign."""
        ...

    def delay(self, task: TrainTask) -> float | None:
        """Return for how many seconds a trained share is held back; None where it is never sent."""
        ...


class Honest:
    """Trains what was asked for, signs what came of it, and sends it at once."""

    def worker(self, _key: ShareKey) -> Sequence[str]:
        """Return the worker that trains."""
        return ("compute_provider.work.worker",)

    def claim(self, honest: ShareClaim, _leaves: Sequence[Leaf]) -> ShareClaim:
        """Return the claim as it is."""
        return honest

    def delay(self, _task: TrainTask) -> float | None:
        """Return no delay."""
        return 0.0
