"""Addresses: what one parser takes, how it writes them, and that sockets take what it writes."""

import re
import socket
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from host.addresses import HostPort, bare, ip_of, is_host, is_loopback
from host.ports import is_free


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("127.0.0.1:9090", "127.0.0.1"),
        ("[::1]:9090", "::1"),
        ("[2001:db8::7]:9090", "2001:db8::7"),
        ("[fe80::1%eth0]:9090", "fe80::1%eth0"),
        ("[::]:9090", "::"),
        ("node.example:9090", "node.example"),
        ("val0:9090", "val0"),
        ("my_host.local.:9090", "my_host.local."),
    ],
)
def test_what_is_an_address_is_written_as_it_was(text: str, host: str) -> None:
    assert HostPort.parse(text) == HostPort(host, 9090)
    assert str(HostPort(host, 9090)) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("::1:9090", "write [::1]:9090"),
        ("::", "write [::1]:9090"),
        ("[::1]", "write [::1]:9090"),
        ("2001:db8::7:9090", "write [::1]:9090"),
        ("http://node.example:9090", "is a URL"),
        ("node.example", "is not host:port"),
        (":9090", "is not host:port"),
        ("node.example:", "is not host:port"),
        ("node.example:0", "is not host:port"),
        ("node.example:65536", "is not host:port"),
        ("node.example:9o", "is not host:port"),
        ("127.0.0.256:9090", "neither the name of a host nor an IP address"),
        ("[127.0.0.1]:9090", "neither the name of a host nor an IP address"),
        ("[node]:9090", "neither the name of a host nor an IP address"),
        ("a b:9090", "neither the name of a host nor an IP address"),
        ("-a:9090", "neither the name of a host nor an IP address"),
    ],
)
def test_what_is_none_says_how_to_write_it(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        HostPort.parse(text)


def test_a_port_of_the_system_is_for_those_who_allow_it() -> None:
    assert HostPort.parse("[::1]:0", any_port=True) == HostPort("::1", 0)


@pytest.mark.parametrize(
    ("host", "reached"),
    [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("::1", "::1"), ("10.0.0.1", "10.0.0.1"), ("a", "a")],
)
def test_who_listens_everywhere_is_reached_here(host: str, reached: str) -> None:
    assert HostPort(host, 1).reached == HostPort(reached, 1)


def test_hosts() -> None:
    assert bare("[::1]") == bare("::1") == "::1"
    assert [is_loopback(host) for host in ("127.8.0.1", "::1", "[::1]", "::", "a")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert ip_of("[127.0.0.1]") is None
    assert not is_host("1.2.3")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::"])
def test_sockets_and_grpc_take_what_it_writes(host: str) -> None:
    server = grpc.server(ThreadPoolExecutor(1), options=(("grpc.so_reuseport", 0),))
    port = server.add_insecure_port(str(HostPort(host, 0)))
    server.start()
    try:
        assert not is_free(host, port)
        where = HostPort(host, port).reached
        with socket.create_connection((where.host, where.port), 5.0):
            pass
        with grpc.insecure_channel(str(where)) as channel:
            grpc.channel_ready_future(channel).result(timeout=10)
    finally:
        server.stop(0)
