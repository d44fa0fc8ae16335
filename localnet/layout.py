"""What a local network consists of and where it lies; written down once in ``network.json``."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from domain.errors import Expected
from pol.executor.names import DEFAULT

FILE = "network.json"


class NetworkError(Expected):
    """A local network is not what or where it should be; the text names the process and its log."""


class NetworkKind(StrEnum):
    """What makes the blocks of a network."""

    COMETBFT = "cometbft"  # a node with CometBFT for each validator
    SOLO = "solo"  # the first validator's node alone; all daemons talk to it, the others only take turns as proposers


@dataclass(frozen=True, slots=True)
class ValidatorSpec:
    """A validator: home, operator address, and where its node and its cluster service listen."""

    moniker: str
    home: str
    operator: str
    p2p: int
    rpc: int
    grpc: int
    cluster: int


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """A compute provider: home, address, its validator's moniker, how it misbehaves (empty: it does not), back end."""

    name: str
    home: str
    address: str
    validator: str
    misbehave: str
    backend: str = DEFAULT


@dataclass(frozen=True, slots=True)
class Layout:
    """A whole local network."""

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
        """The validators whose node is a process of its own."""
        return self.validators[:1] if self.kind is NetworkKind.SOLO else self.validators

    def validator(self, moniker: str) -> ValidatorSpec:
        """Return a validator by its moniker; NetworkError."""
        for spec in self.validators:
            if spec.moniker == moniker:
                return spec
        known = ", ".join(spec.moniker for spec in self.validators)
        raise NetworkError(f"no validator {moniker}", f"it is one of {known}")

    def provider(self, name: str) -> ProviderSpec:
        """Return a provider by its name; NetworkError."""
        for spec in self.providers:
            if spec.name == name:
                return spec
        known = ", ".join(spec.name for spec in self.providers)
        raise NetworkError(f"no provider {name}", f"it is one of {known or 'none'}")


def save_layout(layout: Layout) -> None:
    """Write ``network.json``."""
    (layout.path / FILE).write_text(json.dumps(asdict(layout), indent=1))


def load_layout(directory: Path) -> Layout:
    """Read ``network.json``; NetworkError where there is no network that this version made."""
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
        anew = "make it anew with assay localnet start --reset"
        raise NetworkError(f"{directory / FILE} is not of this version", anew) from None
