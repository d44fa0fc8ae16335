"""The kinds of values that settings have: a file, the environment, a program and an option are checked alike."""

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Text:
    """Any text."""

    name: ClassVar[str] = "text"

    def check(self, value: str | int) -> None:
        """Accept every text."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    options: tuple[str, ...]

    @property
    def name(self) -> str:
        """The words, as help pages show them."""
        return "|".join(self.options)

    def check(self, value: str | int) -> None:
        """Check that the value is one of the words."""
        if value not in self.options:
            raise ValueError(f"{value!r} is not one of {', '.join(map(repr, self.options))}")


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number in a range; without ``high`` the range has no end."""

    low: int
    high: int | None = None

    @property
    def name(self) -> str:
        """The range."""
        return f"{self.low} or more" if self.high is None else f"{self.low} to {self.high}"

    def check(self, value: str | int) -> None:
        """Check that the value is a number in the range."""
        if (
            not isinstance(value, int)
            or value < self.low
            or (self.high is not None and value > self.high)
        ):
            raise ValueError(f"{value} is not in the range {self.name}")


@dataclass(frozen=True, slots=True)
class Host:
    """An IP address to serve on."""

    name: ClassVar[str] = "address"

    def check(self, value: str | int) -> None:
        """Check that the value is an IP address."""
        try:
            ip_address(value)
        except ValueError:
            raise ValueError(
                f"{value} is not an IP address; 0.0.0.0 means all addresses of this machine"
            ) from None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a service, as host:port."""

    name: ClassVar[str] = "host:port"

    def check(self, value: str | int) -> None:
        """Check that the value has a host and a port."""
        host, _, port = str(value).rpartition(":")
        if not host or not re.fullmatch("[0-9]{1,5}", port) or not 1 <= int(port) <= 65_535:
            raise ValueError(f"{value} is not host:port with a port from 1 to 65535")


Kind = Text | Choice | Whole | Host | Endpoint

PORT = Whole(1, 65_535)
PORT_OR_NONE = Whole(0, 65_535)
KEYRING = Choice(("file", "test"))
LOG_LEVEL = Choice(("debug", "info", "warning", "error"))
LOG_FORMAT = Choice(("text", "json"))
