"""The kinds of values that settings have; files, the environment, programs and options use the same checks."""

import re
from dataclasses import dataclass
from typing import ClassVar

from domain.errors import Refusal
from host.addresses import HostPort, ip_of
from pol.machines.form import read_shape
from pol.work.executor import address_of
from wire.address import check_address


@dataclass(frozen=True, slots=True)
class Text:
    """The kind of a setting whose value is any text."""

    name: ClassVar[str] = "text"

    def check(self, value: str | int) -> None:
        """Accept every text."""


@dataclass(frozen=True, slots=True)
class WordChoice:
    """The kind of a setting whose value is one of a few words."""

    options: tuple[str, ...]

    @property
    def name(self) -> str:
        """The words, in the form that help pages show."""
        return "|".join(self.options)

    def check(self, value: str | int) -> None:
        """Check that the value is one of the words."""
        if value not in self.options:
            raise ValueError(f"{value!r} is not one of {', '.join(map(repr, self.options))}")


@dataclass(frozen=True, slots=True)
class Whole:
    """The kind of a setting whose value is a whole number from ``low`` to ``high``; None means no upper bound."""

    low: int
    high: int | None = None

    @property
    def name(self) -> str:
        """The range, in the form that errors show."""
        return f"{self.low} or more" if self.high is None else f"{self.low} to {self.high}"

    def check(self, value: str | int) -> None:
        """Check that the value is a number in the range."""
        if not isinstance(value, int) or value < self.low or (self.high is not None and value > self.high):
            raise ValueError(f"{value} is not in the range {self.name}")


@dataclass(frozen=True, slots=True)
class Host:
    """The kind of a setting whose value is an IP address to listen on."""

    name: ClassVar[str] = "address"

    def check(self, value: str | int) -> None:
        """Check that the value is an IP address."""
        if ip_of(str(value)) is None:
            raise ValueError(
                f"{value} is not an IP address; write for example 10.0.0.1, 0.0.0.0 for all IPv4 addresses of this"
                " machine, or :: for all IPv4 and IPv6 addresses"
            )


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The kind of a setting whose value is the address of a service, as host:port."""

    name: ClassVar[str] = "host:port"

    def check(self, value: str | int) -> None:
        """Check that the value has a host and a port."""
        HostPort.parse(str(value))


@dataclass(frozen=True, slots=True)
class SignerAddress:
    """The kind of a setting whose value is the address at which CometBFT waits for a remote signer."""

    name: ClassVar[str] = "tcp://host:port|unix:///path"

    def check(self, value: str | int) -> None:
        """Check that the value is an address for TCP, or the path of a socket."""
        scheme, _, place = str(value).partition("://")
        if scheme == "tcp":
            HostPort.parse(place)
        elif scheme != "unix" or not place.startswith("/"):
            raise ValueError(
                f"{value} is neither tcp://host:port nor unix:///path, for example tcp://10.0.0.1:26659 or"
                " unix:///run/signer.sock"
            )


@dataclass(frozen=True, slots=True)
class ConsensusKey:
    """The kind of a setting whose value is a consensus key."""

    name: ClassVar[str] = "64 hex digits"

    def check(self, value: str | int) -> None:
        """Check that the value has the digits of 32 bytes."""
        if not _CONSENSUS_KEY.fullmatch(str(value)):
            raise ValueError(f"{value} is not a consensus key; a consensus key has 64 hex digits")


@dataclass(frozen=True, slots=True)
class ExecutorName:
    """The kind of a setting whose value says where recomputation runs."""

    name: ClassVar[str] = "local|ray://HOST:PORT"

    def check(self, value: str | int) -> None:
        """Check that the value names this machine or a cluster."""
        address_of(str(value))


@dataclass(frozen=True, slots=True)
class GroupShape:
    """The kind of a setting whose value says how many machines compute together, and in which stages."""

    name: ClassVar[str] = "N|STAGESxROWS"

    def check(self, value: str | int) -> None:
        """Check that the value is a number of machines, or a shape."""
        read_shape(str(value))


@dataclass(frozen=True, slots=True)
class PeerList:
    """The kind of a setting whose value lists other nodes as ID@host:port, separated by commas."""

    name: ClassVar[str] = "ID@host:port,..."

    def check(self, value: str | int) -> None:
        """Check that each peer has a node id and an address."""
        for peer in filter(None, map(str.strip, str(value).split(","))):
            node_id, at, address = peer.rpartition("@")
            if not at or not _NODE_ID.fullmatch(node_id):
                raise ValueError(
                    f"{peer} is not ID@host:port, where ID has 40 hex digits; `assay node show` on the other machine"
                    " prints it"
                )
            HostPort.parse(address)


@dataclass(frozen=True, slots=True)
class AddressList:
    """The kind of a setting whose value lists at most ``most`` different accounts, separated by commas."""

    most: int
    name: ClassVar[str] = "address,..."

    def check(self, value: str | int) -> None:
        """Check that each account is an address, that none comes twice, and that there are not too many."""
        accounts = self.split(value)
        if len(accounts) > self.most:
            raise ValueError(f"{len(accounts)} addresses are listed, but at most {self.most} are allowed")
        for account in accounts:
            if accounts.count(account) > 1:
                raise ValueError(f"{account} is listed twice; list it once")
            try:
                check_address(account, "address")
            except Refusal as error:
                raise ValueError(f"{account} {error.reason}: {error.remedy}") from None

    @staticmethod
    def split(value: str | int) -> tuple[str, ...]:
        """Return the accounts in the list."""
        return tuple(filter(None, map(str.strip, str(value).split(","))))


_NODE_ID = re.compile("[0-9a-f]{40}")
_CONSENSUS_KEY = re.compile("[0-9a-f]{64}")
Kind = (
    Text
    | WordChoice
    | Whole
    | Host
    | Endpoint
    | SignerAddress
    | ConsensusKey
    | ExecutorName
    | GroupShape
    | PeerList
    | AddressList
)

PORT = Whole(1, 65_535)
PORT_OR_NONE = Whole(0, 65_535)
KEYRING = WordChoice(("file", "test"))
LOG_LEVEL = WordChoice(("debug", "info", "warning", "error"))
LOG_FORMAT = WordChoice(("text", "json"))
