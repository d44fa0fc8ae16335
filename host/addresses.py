"""Addresses of services: one parser and one way to write them, for all code that reads or shows an address.

An address is ``host:port``. A host is a name, an IPv4 address, or an IPv6 address, which is in brackets before a
port.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, Self

PORT_MAX: Final = 65_535
_PORT = re.compile("[0-9]{1,5}")
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,251}[A-Za-z0-9_.])?")


@dataclass(frozen=True, slots=True)
class HostPort:
    """A host, without brackets, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return ``host:port``, with an IPv6 address in brackets."""
        return f"{bracketed(self.host)}:{self.port}"

    @classmethod
    def parse(cls, text: str, *, any_port: bool = False) -> Self:
        """Parse an address. If ``text`` is not an address, the ValueError says what is wrong and how to write an
        address.

        With ``any_port`` the port may be 0, which lets the system choose one.
        """
        host, colon, port = text.rpartition(":")
        if "//" in text:
            raise ValueError(f"{text} is a URL; use host:port, for example node.example:9090")
        if _is_ipv6(text) or (_is_ipv6(host) and not host.startswith("[")):
            raise ValueError(f"{text} has an IPv6 address without brackets or without a port; write [::1]:9090")
        if not colon or not host or not (_is_port(port) or (any_port and port == "0")):
            raise ValueError(f"{text} is not host:port with a port from 1 to {PORT_MAX}, for example node.example:9090")
        if not is_host(host):
            raise ValueError(f"{host} is neither the name of a host nor an IP address; write node.example or 10.0.0.7")
        return cls(bare(host), int(port))

    @property
    def reached(self) -> "HostPort":
        """The address at which programs on this machine reach a server that listens here.

        It is a loopback address if the server listens on all addresses.
        """
        address = ip_of(self.host)
        if address is None or not address.is_unspecified:
            return self
        return HostPort("127.0.0.1" if address.version == 4 else "::1", self.port)


def bare(host: str) -> str:
    """Return a host without brackets."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def bracketed(host: str) -> str:
    """Return a host as it is written before a port: an IPv6 address is put in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def ip_of(host: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address in ``host``, with or without brackets; None for a name."""
    try:
        address = ip_address(bare(host))
    except ValueError:
        return None
    return None if host.startswith("[") and address.version == 4 else address


def is_host(host: str) -> bool:
    """Return whether ``host`` is a name, an IPv4 address, or an IPv6 address in brackets or alone."""
    if ip_of(host) is not None:
        return True
    # A name whose last part is a number is a mistyped IPv4 address.
    return bool(_NAME.fullmatch(host)) and not host.rstrip(".").rpartition(".")[2].isdecimal()


def is_loopback(host: str) -> bool:
    """Return whether ``host`` is a loopback address, which only this machine reaches."""
    address = ip_of(host)
    return address is not None and address.is_loopback


def _is_ipv6(text: str) -> bool:
    address = ip_of(text)
    return address is not None and address.version == 6


def _is_port(text: str) -> bool:
    return bool(_PORT.fullmatch(text)) and 1 <= int(text) <= PORT_MAX
