"""The inputs of a provider: its settings, its access to the chain (``chain.client`` provides it), and its behaviour."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from domain.errors import Expected
from domain.keys import PanelKey, ShareKey
from domain.ledger.queries import AccountResponse
from domain.messages import Message
from domain.node.queries import StatusResponse
from domain.params import Params
from domain.proof.queries import OrderResponse
from domain.proof.records import PanelSeat, ShareClaim
from domain.registry.records import Provider, Validator
from link.types import TrainTask
from pol.executor.names import DEFAULT_ENGINE, Engine
from pol.machines.form import Shape
from pol.work.executor import LOCAL
from wire.keys import Key


class ChainReader(Protocol):
    """Read access to the chain. Every call has a deadline and raises an exception when it fails."""

    def status(self) -> StatusResponse:
        """Return the chain's height, clock and id."""
        ...

    def order(self, order_id: bytes) -> OrderResponse:
        """Return an order with its legs, rounds, shares, escrow and payments."""
        ...

    def seats(self, panel: PanelKey) -> tuple[PanelSeat, ...]:
        """Return the seats of a panel in all its stages."""
        ...

    def params(self) -> Params:
        """Return the chain's parameters."""
        ...

    def account(self, address: str) -> AccountResponse:
        """Return the balance and the bond of an address."""
        ...

    def validator(self, operator: str) -> Validator | None:
        """Return the validator with this operator address; None if there is none."""
        ...

    def has_credential(self, owner: str) -> bool:
        """Return whether an account has a credential in force."""
        ...

    def count_validators(self) -> int:
        """Return the number of validators."""
        ...

    def provider(self, address: str) -> Provider | None:
        """Return the chain's record of a provider in any cluster; None if the provider never applied to a cluster."""
        ...


class ChainSender(Protocol):
    """A sender of transactions that are signed with one key. It waits until each transaction is in a block."""

    def send(self, *messages: Message, in_lane: bool = False) -> Any:
        """Send the messages in one transaction, and return when that transaction is in a block.

        A transaction that is ``in_lane`` consists of duties. Raise an error if the transaction is refused or expires.
        """
        ...


class Behaviour(Protocol):
    """The way a provider trains, signs and sends its shares; :class:`Honest` unless a test passes another behaviour."""

    def worker(self, key: ShareKey) -> Sequence[str]:
        """Return the module that runs as the worker of a share, and its arguments."""
        ...

    def claim(self, honest: ShareClaim) -> ShareClaim:
        """Return the claim that the provider signs, given the ``honest`` claim."""
        ...

    def delay(self, task: TrainTask) -> float | None:
        """Return how long (seconds) a trained share is held back before it is sent; None if it is never sent."""
        ...


class Honest:
    """The behaviour that trains the task, signs the true result, and sends it at once."""

    def worker(self, _key: ShareKey) -> Sequence[str]:
        """Return the module that trains honestly."""
        return ("compute_provider.work.worker",)

    def claim(self, honest: ShareClaim) -> ShareClaim:
        """Return the claim unchanged."""
        return honest

    def delay(self, _task: TrainTask) -> float | None:
        """Return a delay of zero seconds."""
        return 0.0


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """The settings of one provider; ``home`` is its own folder (usually ``~/.assay/provider``)."""

    home: Path
    # The gRPC address of a node (host:port).
    node: str
    # The validator's operator address. The functions of ``api`` also take its moniker.
    validator: str
    key: Key
    engine: Engine = DEFAULT_ENGINE
    device_class: str = "cpu"
    # Least amount to keep in the bond account (uassay).
    bond: int = 0
    # Least income (uassay) per PFLOP for which the provider trains; 0 means any income.
    least_income: int = 0
    # Largest sum (uassay) of the bonds of shares that are promised or committed but not paid yet; 0 means any sum.
    max_exposure: int = 0
    # Also take tasks that bonds and cover would not pay if another provider's fault made them void.
    uncovered: bool = False
    # Leave what shares earn in the bond account.
    keep_earnings: bool = False
    # An invitation to the validator's cluster; empty if there is none.
    invitation: bytes = b""
    # Deposit the missing bond of each share when its task arrives.
    auto_bond: bool = True
    disk_bytes: int = 64 << 30
    # Seconds between two polls; None means the interval that the validator gives.
    poll_seconds: float | None = None
    # Seconds between two readings of the chain.
    chain_seconds: float = 2.0
    # Port on 127.0.0.1 that serves metrics and health; 0 means no port.
    metrics_port: int = 0
    # A value of --executor: where shares are trained.
    executor: str = LOCAL
    # Machines that train a share together, or stages and machines per stage.
    machines: Shape = 1


class ProviderError(Expected):
    """An error that stops the provider or one of its actions, with the reason and the remedy."""


class NotAdmitted(ProviderError):
    """The error that is raised if the validator did not admit the provider. The provider may ask again after
    ``seconds``.
    """

    def __init__(self, reason: str, seconds: float) -> None:
        """Take the validator's reason, and the seconds until the next try."""
        super().__init__(f"waiting for admission: {reason}", "asking again")
        self.seconds = seconds
