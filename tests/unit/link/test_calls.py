"""Each type of the link goes over the wire and back, nothing outside its bounds does, and every call is answered."""

from dataclasses import dataclass, fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.cluster.v1 import cluster_pb2 as pb
from domain.bounds import Hash, Mismatch
from domain.errors import Refusal
from domain.keys import ShareKey
from link import types as t
from link.calls import SERVICE, Call, decode, decode_newer, encode
from link.envelope import SignedRequest
from link.errors import ClusterError, ClusterErrorKind
from tests.support.bounded import bends, sample, values
from wire.convert import _writer as unchecked

TYPES: list[Any] = [
    SignedRequest,
    *(call.request for call in t.CALLS),
    *dict.fromkeys(call.reply for call in t.CALLS),
]


def test_every_call_of_the_service_is_in_the_table_and_has_its_own_handler() -> None:
    service = pb.DESCRIPTOR.services_by_name["Cluster"]
    assert service.full_name == SERVICE
    assert [call.name for call in t.CALLS] == [method.name for method in service.methods]
    assert {call.handler for call in t.CALLS} <= set(vars(t.Handlers)) | {t.BANDWIDTH.handler}


@pytest.mark.parametrize("cls", TYPES)
def test_field_names_are_the_same(cls: Any) -> None:
    proto = getattr(pb, cls.__name__)
    assert [f.name for f in fields(cls)] == [f.name for f in proto.DESCRIPTOR.fields]


@pytest.mark.parametrize("cls", TYPES)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_value_survives_the_way(cls: Any, data: st.DataObject) -> None:
    value = data.draw(values(cls))
    assert decode(cls, encode(value)) == value


@pytest.mark.parametrize("cls", TYPES)
def test_what_is_just_outside_a_bound_is_neither_sent_nor_taken(cls: Any) -> None:
    value = sample(cls)
    assert decode(cls, encode(value)) == value
    descriptor = getattr(pb, cls.__name__).DESCRIPTOR
    for path, bad in bends(cls, value):
        with pytest.raises(Refusal) as ours:
            encode(bad)
        assert ours.value.field == path
        try:
            raw = unchecked(cls, descriptor)(bad).SerializeToString()
        except (ValueError, TypeError):  # protobuf itself has no room for it
            continue
        for read in (decode, decode_newer):
            with pytest.raises(ClusterError) as theirs:
                read(cls, raw)
            assert (theirs.value.kind, theirs.value.field) == (ClusterErrorKind.BAD_REQUEST, path)


def test_a_claim_is_bounded_as_on_the_chain() -> None:
    share = sample(t.ShareSubmission)
    raw = pb.ShareSubmission.FromString(encode(share))
    raw.claim.provider = "somebody"
    with pytest.raises(ClusterError, match=r"claim\.provider: is not an address"):
        decode(t.ShareSubmission, raw.SerializeToString())


def test_a_value_out_of_bounds_is_not_sent() -> None:
    key = ShareKey(bytes(32), 1, 0, 0, 1)
    good = t.PollRequest("1", (t.Doing(key, t.Phase.TRAINING, 1, 2, t.NAN_BITS),))
    encode(good)
    bad = t.PollRequest("1", (t.Doing(key, t.Phase.TRAINING, -1, 2, t.NAN_BITS),))
    with pytest.raises(Refusal) as refused:
        encode(bad)
    assert refused.value.field == "doing[0].step"


def test_numbers_that_are_no_case_of_an_enum_are_refused() -> None:
    doing = pb.PollRequest.FromString(encode(sample(t.PollRequest)))
    doing.doing[0].phase = 9
    with pytest.raises(ClusterError, match=r"doing\[0\]\.phase: 9 is not known; use one of \[1"):
        decode(t.PollRequest, doing.SerializeToString())


def test_a_reply_may_be_of_a_newer_server_and_a_request_of_nobody_newer() -> None:
    raw = encode(t.StatBlobRequest(t.BlobRef(bytes(32), 1))) + b"\xfa\x01\x01x"
    assert decode_newer(t.StatBlobRequest, raw).blob.size == 1
    with pytest.raises(ClusterError, match="unknown field 31"):
        decode(t.StatBlobRequest, raw)


@dataclass(frozen=True)
class BlobStatus:
    """Other fields than the message of this name has."""

    held: Hash
    complete: bool


def test_a_call_whose_types_do_not_fit_its_messages_is_a_mismatch() -> None:
    with pytest.raises(Mismatch, match="does not answer"):
        Call("StatBlob", t.StatBlobRequest, t.Chunk, frozenset())
    with pytest.raises(Mismatch, match=r"BlobStatus\.held"):
        Call("StatBlob", t.StatBlobRequest, BlobStatus, frozenset())
