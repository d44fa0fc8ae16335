"""What a provider is told at its start."""

from dataclasses import dataclass, field
from pathlib import Path

from domain.errors import Expected
from host.sandbox import physical_memory
from wire.keys import Key


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """Settings of one provider; ``home`` is its own folder (usually ``~/.assay/provider``)."""

    home: Path
    # The gRPC address of a node.
    node: str
    # Operator address; for the api also the moniker.
    validator: str
    key: Key
    backend: str = "numpy"
    device_class: str = "cpu"
    # What to keep in the bond account at least (uassay).
    bond: int = 0
    # Deposit what a share needs when it is given.
    auto_bond: bool = True
    memory_bytes: int = field(default_factory=lambda: physical_memory() * 3 // 4)
    disk_bytes: int = 64 << 30
    # None: as the validator says.
    poll_seconds: float | None = None
    chain_seconds: float = 2.0


class ProviderError(Expected):
    """The provider cannot go on: the reason and the remedy."""
