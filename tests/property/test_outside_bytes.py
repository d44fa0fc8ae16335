"""Whatever bytes come to a node's doors or lie in its files, it answers with a refusal, without a stack trace.

Transactions, messages and queries have tests of their own (``test_decoders.py``, ``test_services.py``), and so have
REST, reflection and the frames of ABCI (``tests/unit/chain/app/``).
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from assay.settings.configuration import Configuration
from assay.settings.errors import SettingsError
from chain.app.abci_query import AbciQueries
from chain.app.comet_files import HomeError, read_genesis
from chain.app.homes import check_genesis, genesis_path
from chain.app.node import NodeConfig
from chain.app.services.app_paths import STORE_PATH
from chain.app.services.table import METHODS, Services
from domain.errors import Refusal
from domain.limits import TX_BYTES_MAX
from tests.property.test_decoders import mutated
from tests.support.node_process import make_home
from tests.support.solo_node import ALICE, SoloNode, running
from wire.tx import decode_tx

PATHS = (*METHODS, STORE_PATH, "/app/version", "/app/simulate", "/store/acc/key", "/store/assay/subspace", "")
ADDRESS = b"\x0a" + bytes([len(ALICE.address)]) + ALICE.address.encode()
GROWTH_MAX = 64 * 2**20
"""Bytes by which the memory of a process may grow for what it refuses."""
FEW = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoloNode]:
    with running(tmp_path_factory.mktemp("node")) as solo:
        solo.engine.make_block()
        yield solo


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("home"))


# --- a running node ------------------------------------------------------------------------------


@FEW
@given(
    path=st.sampled_from(PATHS) | st.text(max_size=60),
    data=st.binary(max_size=200) | st.just(ADDRESS),
    height=st.sampled_from((0, 1, 2, -1, 2**63 - 1, -(2**63))),
    prove=st.booleans(),
)
@example(path=STORE_PATH, data=b"\xff" * 300, height=0, prove=True)
@example(path="/" * 100_000, data=b"", height=0, prove=False)
def test_an_abci_query_has_an_answer_or_a_code(
    node: SoloNode, path: str, data: bytes, height: int, prove: bool
) -> None:
    answer = AbciQueries(node.app, Services(node.app).call)(path, data, height, prove)
    assert (answer.codespace, answer.code) != ("undefined", 1), "a bug, not a refusal"
    assert "Traceback" not in answer.log
    assert len(answer.log) < 5_000


@FEW
@given(path=st.sampled_from(sorted(METHODS)), data=st.binary(max_size=200) | st.just(ADDRESS))
def test_a_grpc_call_has_an_answer_or_a_status(node: SoloNode, path: str, data: bytes) -> None:
    with grpc.insecure_channel(node.address) as channel:
        call: Any = channel.unary_stream(path) if METHODS[path].is_stream else channel.unary_unary(path)
        try:
            answer = call(data, timeout=0.5 if METHODS[path].is_stream else 20.0)
            if METHODS[path].is_stream:
                next(answer)
        except grpc.RpcError as error:
            status: Any = error
            assert status.code() not in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL), status.details()
            assert "Traceback" not in (status.details() or "")


def test_memory_is_bounded_for_what_is_refused(node: SoloNode) -> None:
    """Lengths that lie, deep nesting, and many fields: each as large as may come."""
    queries = AbciQueries(node.app, Services(node.app).call)
    large = [
        b"\x0a\xff\xff\xff\xff\x07" + bytes(TX_BYTES_MAX - 6),
        b"\x0a\x00" * (TX_BYTES_MAX // 2),
        b"\x0b" * TX_BYTES_MAX,
        b"\x08\x01" * (TX_BYTES_MAX // 2),
        bytes([0xFF]) * TX_BYTES_MAX,
    ]
    process = psutil.Process()

    def refuse_all() -> None:
        for data in large:
            with pytest.raises(Refusal):
                decode_tx(data)
            assert node.app.check_tx(data).code
            for path in ("/cosmos.tx.v1beta1.Service/Simulate", "/cosmos.bank.v1beta1.Query/Balance", STORE_PATH):
                assert queries(path, data, 0, False).code or path == STORE_PATH

    refuse_all()
    before = process.memory_info().rss
    for _ in range(5):
        refuse_all()
    assert process.memory_info().rss - before < GROWTH_MAX


# --- files ---------------------------------------------------------------------------------------


def try_genesis(path: Path) -> None:
    """Read a genesis file as a node does before it starts."""
    with suppress(HomeError, Refusal):
        genesis, time_ns = read_genesis(path)
        check_genesis(genesis, time_ns)


@FEW
@given(data=st.data())
def test_a_genesis_file_is_read_or_refused(home: Path, tmp_path: Path, data: st.DataObject) -> None:
    good = genesis_path(home).read_bytes()
    path = tmp_path / "genesis.json"
    path.write_bytes(mutated(good, data))
    try_genesis(path)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@FEW
@given(data=st.data())
def test_a_genesis_with_another_value_anywhere_is_read_or_refused(
    home: Path, tmp_path: Path, data: st.DataObject
) -> None:
    document = json.loads(genesis_path(home).read_bytes())
    at = document
    while True:
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else list(range(len(at)))))
        if isinstance(at[key], dict | list) and at[key] and data.draw(st.booleans()):
            at = at[key]
            continue
        at[key] = data.draw(VALUES)
        break
    path = tmp_path / "genesis.json"
    path.write_text(json.dumps(document))
    try_genesis(path)


@pytest.mark.parametrize(
    "text", [b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe", b"", b"null", b"[]", b"1e999", b"9" * 5_000, b"{}"]
)
def test_a_file_that_is_no_genesis_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "genesis.json"
    path.write_bytes(text)
    with pytest.raises(HomeError):
        read_genesis(path)


def try_configuration(home: Path) -> None:
    """Read a home's configuration as the commands and the node do."""
    with suppress(HomeError):
        NodeConfig.of_home(home)
    with suppress(SettingsError):
        Configuration(home)


@FEW
@given(data=st.data())
def test_a_configuration_is_read_or_refused(home: Path, tmp_path: Path, data: st.DataObject) -> None:
    (tmp_path / "config.toml").write_bytes(mutated((home / "config.toml").read_bytes(), data))
    try_configuration(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        b"\xff\xfe",
        b"[node]",
        b'[node]\ngrpc_port = "x"',
        b"[node]\ngrpc_port = [1]\nrpc_port = 1\nmoniker = 1",
        b'[node]\nmoniker = "a"\ngrpc_port = 99999999\nrpc_port = -1',
        b"node = 1",
        b"a = " + b"[" * 100_000,
        b"a = " + b"9" * 5_000,
        b"a = 1e999",
        b"[" + b"a." * 10_000 + b"a]",
    ],
)
def test_a_configuration_that_no_node_can_have_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "config.toml").write_bytes(text)
    try_configuration(tmp_path)
    with pytest.raises(HomeError):
        NodeConfig.of_home(tmp_path)
