import socket
from threading import Timer

from host.ports import is_free, wait_until_free

HOST = "127.0.0.1"


def test_a_port_is_taken_while_somebody_listens() -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        assert not is_free(HOST, port)
        assert not wait_until_free(HOST, port, 0.0)
    assert is_free(HOST, port)


def test_who_is_ending_is_waited_for() -> None:
    server = socket.create_server((HOST, 0))
    port = server.getsockname()[1]
    ending = Timer(0.3, server.close)
    ending.start()
    assert wait_until_free(HOST, port, 60.0)
    ending.join()
