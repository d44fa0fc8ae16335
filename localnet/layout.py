"""The layout of a local network: its processes, homes and ports, stored in ``network.json``."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from domain.errors import Expected
from pol.executor.names import DEFAULT

FILE = "network.json"


class NetworkError(Expected):
    """An error for a local network that is missing, wrong or failed.

    If a process failed, the text names the process and its log.
    """


class NetworkKind(StrEnum):
    """The way a network makes its blocks."""

    COMETBFT = "cometbft"  # each validator has a node with CometBFT
    SOLO = "solo"  # one node makes all blocks in the name of each validator in turn; all daemons use this node


@dataclass(frozen=True, slots=True)
class ValidatorSpec:
    """A validator: its home, its operator's address, and the ports of its node and its cluster service."""

    moniker: str
    home: str
    operator: str
    p2p: int
    rpc: int
    grpc: int
    cluster: int
    rest: int = 0  # port of the REST gateway; 0: this node has none


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """A compute provider: its home, address, validator's moniker, way to cheat (empty: honest), and backend."""

    name: str
    home: str
    address: str
    validator: str
    misbehave: str
    backend: str = DEFAULT


@dataclass(frozen=True, slots=True)
class Layout:
    """A whole local network: its directory, its chain, and the homes and addresses of its members."""

    directory: str
    chain_id: str
    validators: tuple[ValidatorSpec, ...]
    providers: tuple[ProviderSpec, ...]
    consumer_home: str
    consumer: str
    kind: NetworkKind = NetworkKind.COMETBFT

    @property
    def path(self) -> Path:
        """The network's directory."""
        return Path(self.directory)

    @property
    def nodes(self) -> tuple[ValidatorSpec, ...]:
        """The validators that have their own node process."""
        return self.validators[:1] if self.kind is NetworkKind.SOLO else self.validators

    def validator(self, moniker: str) -> ValidatorSpec:
        """Return a validator by its moniker; raise NetworkError if no validator has it."""
        for spec in self.validators:
            if spec.moniker == moniker:
                return spec
        known = ", ".join(spec.moniker for spec in self.validators)
        raise NetworkError(f"there is no validator {moniker}", f"choose one of {known}")

    def provider(self, name: str) -> ProviderSpec:
        """Return a provider by its name; raise NetworkError if no provider has it."""
        for spec in self.providers:
            if spec.name == name:
                return spec
        known = ", ".join(spec.name for spec in self.providers)
        remedy = f"choose one of {known}" if known else "this network has no providers"
        raise NetworkError(f"there is no provider {name}", remedy)


def save_layout(layout: Layout) -> None:
    """Write ``network.json``."""
    (layout.path / FILE).write_text(json.dumps(asdict(layout), indent=1))


def load_layout(directory: Path) -> Layout:
    """Read ``network.json``; raise NetworkError if the file is missing, or if another version wrote it."""
    try:
        fields = json.loads((directory / FILE).read_text())
        fields["validators"] = tuple(ValidatorSpec(**item) for item in fields["validators"])
        fields["providers"] = tuple(ProviderSpec(**item) for item in fields["providers"])
        fields["kind"] = NetworkKind(fields["kind"])
        return Layout(**fields)
    except FileNotFoundError:
        start = "start one with assay localnet start"
        raise NetworkError(f"there is no network in {directory}", start) from None
    except (ValueError, KeyError, TypeError):
        reset = "create the network again with assay localnet start --reset"
        raise NetworkError(f"{directory / FILE} is from another version of Assay", reset) from None
