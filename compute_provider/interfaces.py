"""What a provider is given: its settings, the chain (``chain.client`` fits it), and how it behaves."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from domain.errors import Expected
from domain.keys import ShareKey
from domain.ledger.queries import AccountResponse
from domain.messages import Message
from domain.node.queries import StatusResponse
from domain.proof.queries import OrderResponse
from domain.proof.records import ShareClaim
from domain.registry.records import Provider, Validator
from host.sandbox import usable_memory
from link.types import TrainTask
from pol.executor.names import DEFAULT
from wire.keys import Key


class ChainReader(Protocol):
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

    def provider(self, address: str) -> Provider | None:
        """A provider, wherever it is or asks to be."""
        ...


class ChainSender(Protocol):
    """Sends transactions of one key, and waits for them."""

    def send(self, *messages: Message) -> Any:
        """Return when the messages are in a block; raise when they are refused or expire."""
        ...


class Behaviour(Protocol):
    """What a provider makes of its shares; :class:`Honest` unless somebody hands in another."""

    def worker(self, key: ShareKey) -> Sequence[str]:
        """Return the module, with its arguments, that runs as the worker of a share."""
        ...

    def claim(self, honest: ShareClaim) -> ShareClaim:
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

    def claim(self, honest: ShareClaim) -> ShareClaim:
        """Return the claim as it is."""
        return honest

    def delay(self, _task: TrainTask) -> float | None:
        """Return no delay."""
        return 0.0


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """Settings of one provider; ``home`` is its own folder (usually ``~/.assay/provider``)."""

    home: Path
    # The gRPC address of a node.
    node: str
    # Operator address; for the api also the moniker.
    validator: str
    key: Key
    backend: str = DEFAULT
    device_class: str = "cpu"
    # What to keep in the bond account at least (uassay).
    bond: int = 0
    # Deposit what a share needs when it is given.
    auto_bond: bool = True
    memory_bytes: int = field(default_factory=lambda: usable_memory() * 3 // 4)
    disk_bytes: int = 64 << 30
    # None: as the validator says.
    poll_seconds: float | None = None
    chain_seconds: float = 2.0
    # Where metrics and health are told on 127.0.0.1; 0: nowhere.
    metrics_port: int = 0


class ProviderError(Expected):
    """The provider cannot go on: the reason and the remedy."""


class NotAdmitted(ProviderError):
    """The validator does not take the provider, yet or at all; it may be asked again in so many seconds."""

    def __init__(self, reason: str, seconds: float) -> None:
        """Say what it waits for."""
        super().__init__(f"waiting for admission: {reason}", "asking again")
        self.seconds = seconds
