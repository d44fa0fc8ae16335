"""A node and its client, for all tests of what stands around the state machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chain.client.client import ChainClient
from tests.support.solo_node import SoloNode, running


@pytest.fixture
def node(tmp_path: Path) -> Iterator[SoloNode]:
    with running(tmp_path) as solo:
        solo.engine.make_block()
        yield solo


@pytest.fixture
def client(node: SoloNode) -> Iterator[ChainClient]:
    with ChainClient(node.address) as open_client:
        yield open_client
