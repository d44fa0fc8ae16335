"""A solo node with a REST gateway in its own processes, for all tests of a file."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import requests

from chain.app.rest.process import RestProcess
from host.addresses import HostPort
from tests.support.solo_node import SoloNode, running


@dataclass
class Rest:
    """The node, and the URL of its gateway."""

    node: SoloNode
    url: str

    def get(self, path: str, **options: object) -> requests.Response:
        """Return the answer to a GET."""
        return requests.get(self.url + path, timeout=20, **options)  # type: ignore[arg-type]

    def post(self, path: str, **options: object) -> requests.Response:
        """Return the answer to a POST."""
        return requests.post(self.url + path, timeout=20, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rest]:
    with running(tmp_path_factory.mktemp("node")) as node:
        node.engine.make_block()
        local = HostPort("127.0.0.1", 0)
        process = RestProcess(local, HostPort.parse(node.address), "https://wallet.example, http://other.example")
        yield Rest(node, f"http://{process.address}")
        process.close()
