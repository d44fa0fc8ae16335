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
    node: str  # gRPC address of a node
    validator: str  # operator address; for the api also the moniker
    key: Key
    backend: str = "numpy"
    device_class: str = "cpu"
    bond: int = 0  # uassay to keep in the bond account at least
    auto_bond: bool = True  # deposit what a share needs when it is given
    memory_bytes: int = field(default_factory=lambda: physical_memory() * 3 // 4)
    disk_bytes: int = 64 << 30
    poll_seconds: float | None = None  # None: as the validator says
    chain_seconds: float = 2.0


class ProviderError(Expected):
    """The provider cannot go on: the reason and the remedy."""
