"""Reflection as grpcurl uses it: services are listed, described with all their types, and called by what was learnt."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import grpc
import pytest
from cosmpy.protos.cosmos.bank.v1beta1 import query_pb2 as bank
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chain.app.reflection import PATHS, REQUESTS_MAX
from chain.app.services.table import METHODS
from tests.support.solo_node import ALICE, RICH, SoloNode

SERVICES = {method.descriptor.containing_service.full_name for method in METHODS.values()}


class Reflected:
    """A client of reflection that knows no message of the node."""

    def __init__(self, channel: grpc.Channel, path: str) -> None:
        self.channel = channel
        self._call: Any = channel.stream_stream(
            path,
            request_serializer=ServerReflectionRequest.SerializeToString,
            response_deserializer=ServerReflectionResponse.FromString,
        )

    def ask(self, **asked: Any) -> ServerReflectionResponse:
        """Return the answer to one request."""
        (answer,) = self._call(iter((ServerReflectionRequest(**asked),)), timeout=10)
        return answer

    def services(self) -> set[str]:
        return {each.name for each in self.ask(list_services="").list_services_response.service}

    def pool(self, symbol: str) -> DescriptorPool:
        """Return a pool with the file of a symbol and all files that it needs."""
        pool = DescriptorPool()
        files = [
            FileDescriptorProto.FromString(data)
            for data in self.ask(file_containing_symbol=symbol).file_descriptor_response.file_descriptor_proto
        ]
        assert files, symbol
        names = {file.name for file in files}
        assert all(set(file.dependency) <= names for file in files)
        added: set[str] = set()
        while len(added) < len(files):
            for file in files:
                if file.name not in added and set(file.dependency) <= added:
                    pool.AddSerializedFile(file.SerializeToString())  # type: ignore[no-untyped-call]
                    added.add(file.name)
        return pool


@pytest.fixture(params=PATHS, ids=["v1", "v1alpha"])
def reflected(request: pytest.FixtureRequest, node: SoloNode) -> Iterator[Reflected]:
    with grpc.insecure_channel(node.address) as channel:
        yield Reflected(channel, request.param)


def test_all_services_are_listed_and_described(reflected: Reflected) -> None:
    listed = reflected.services()
    assert listed == SERVICES | {"grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"}
    for name in listed:
        service = reflected.pool(name).FindServiceByName(name)  # type: ignore[no-untyped-call]
        assert service.methods, name


def test_a_service_is_called_by_what_reflection_says_of_it(reflected: Reflected) -> None:
    pool: Any = reflected.pool("cosmos.bank.v1beta1.Query")
    method = pool.FindServiceByName("cosmos.bank.v1beta1.Query").methods_by_name["Balance"]
    request = GetMessageClass(method.input_type)(address=ALICE.address, denom="uassay")
    call: Any = reflected.channel.unary_unary("/cosmos.bank.v1beta1.Query/Balance")
    response: Any = GetMessageClass(method.output_type).FromString(call(request.SerializeToString(), timeout=10))
    assert response.balance.amount == str(RICH)


def test_files_and_extensions_are_found_by_name(reflected: Reflected) -> None:
    file = reflected.ask(file_by_filename=bank.DESCRIPTOR.name)
    assert file.file_descriptor_response.file_descriptor_proto
    option = {"containing_type": "google.protobuf.MethodOptions", "extension_number": 72295728}
    assert reflected.ask(file_containing_extension=option).file_descriptor_response.file_descriptor_proto
    numbers = reflected.ask(all_extension_numbers_of_type="google.protobuf.MethodOptions")
    assert 72295728 in numbers.all_extension_numbers_response.extension_number


@pytest.mark.parametrize(
    "asked",
    [
        {"file_by_filename": "no/such.proto"},
        {"file_containing_symbol": "no.Such"},
        {"file_containing_symbol": "x" * 100_000},
        {"all_extension_numbers_of_type": "no.Such"},
        {"file_containing_extension": {"containing_type": "no.Such", "extension_number": 1}},
    ],
)
def test_what_is_not_there_is_not_found(reflected: Reflected, asked: dict[str, Any]) -> None:
    assert reflected.ask(**asked).error_response.error_code == 5


def test_a_stream_ends_after_many_requests(reflected: Reflected) -> None:
    requests = (ServerReflectionRequest(file_by_filename="x") for _ in range(REQUESTS_MAX + 5))
    assert len(list(reflected._call(requests, timeout=60))) == REQUESTS_MAX


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=60) | st.builds(lambda tag, rest: bytes([tag]) + rest, st.integers(0, 63), st.binary()))
def test_random_bytes_end_with_an_answer_or_a_status(reflected: Reflected, data: bytes) -> None:
    call: Any = reflected.channel.stream_stream(PATHS[0])
    stream = call(iter((data,)), timeout=10)
    with suppress(grpc.RpcError):
        assert len(list(stream)) <= 1
    assert stream.code() in (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT)
    assert "Traceback" not in (stream.details() or "")


@pytest.mark.skipif(shutil.which("grpcurl") is None, reason="there is no grpcurl on this machine")
def test_grpcurl_lists_and_calls(node: SoloNode) -> None:
    def run(*arguments: str) -> str:
        command = ["grpcurl", "-plaintext", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

    assert set(run(node.address, "list").split()) >= SERVICES
    account = run("-d", f'{{"address": "{ALICE.address}"}}', node.address, "cosmos.auth.v1beta1.Query/Account")
    assert json.loads(account)["account"]["@type"] == "/cosmos.auth.v1beta1.BaseAccount"
