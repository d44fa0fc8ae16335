"""The signed document has the bytes that Cosmos clients sign."""

import pytest
from cosmpy.protos.cosmos.tx.v1beta1.tx_pb2 import SignDoc
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.tx import sign_doc


def protobuf(body: bytes, auth_info: bytes, chain_id: str, number: int) -> bytes:
    doc = SignDoc(body_bytes=body, auth_info_bytes=auth_info, chain_id=chain_id, account_number=number)
    data: bytes = doc.SerializeToString(deterministic=True)
    return data


@settings(deadline=None)
@given(
    st.binary(max_size=300),
    st.binary(max_size=300),
    st.text(max_size=50),
    st.integers(0, 2**64 - 1),
)
def test_sign_doc_is_what_protobuf_serializes(body: bytes, auth_info: bytes, chain_id: str, number: int) -> None:
    assert sign_doc(body, auth_info, chain_id, number) == protobuf(body, auth_info, chain_id, number)


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384])
def test_lengths_around_the_borders_of_a_varint(size: int) -> None:
    body, number = bytes(size), size
    assert sign_doc(body, body, "assay-1", number) == protobuf(body, body, "assay-1", number)


def test_empty_fields_are_left_out() -> None:
    assert sign_doc(b"", b"", "", 0) == b""
