"""Each domain type and its protobuf message have the same fields, and a value survives the way."""

from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.cluster.v1 import cluster_pb2 as pb
from domain.records import ShareClaim, ShareKey
from link import convert
from link.bounds import _DEFAULTS, Each, Length, Matches, OutOfBounds, Within, check, split
from link.envelope import Envelope
from link.methods import METHODS
from link.types import NAN_BITS, Doing, Phase, PollRequest

PAIRS = [
    (Envelope, pb.Envelope),
    *((method.request, method.request_proto) for method in METHODS.values()),
    *((method.reply, method.reply_proto) for method in METHODS.values()),
]


@cache
def values(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of a type within its bounds, its edges included."""
    plain, bounds = split(hint)
    args = get_args(plain)
    if type(None) in args:
        return st.none() | values(args[0])
    kind = get_origin(plain) or plain
    own = [b for b in bounds if not isinstance(b, Each)] or _DEFAULTS.get(kind, ())
    if is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        if kind in (ShareClaim, ShareKey):  # records of the chain, without bounds for this link
            small = st.integers(0, 2**32 - 1)
            parts = {name: small if hint is int else values(hint) for name, hint in hints.items()}
            return st.builds(kind, **parts)
        made: Any = kind
        return st.builds(made, **{f.name: values(hints[f.name]) for f in fields(kind)})
    if kind is bool:
        return st.booleans()
    if kind is Phase:
        return st.sampled_from(Phase)
    bound = own[-1]
    if isinstance(bound, Matches):
        return st.from_regex(bound.pattern, fullmatch=True).filter(lambda text: len(text) < 100)
    if isinstance(bound, Within):
        edges = st.sampled_from([bound.low, bound.high])
        return edges | st.integers(bound.low, bound.high)
    assert isinstance(bound, Length)
    high = min(bound.high, max(bound.low, 2 if kind is tuple else 20))
    if kind is bytes:
        return st.binary(min_size=bound.low, max_size=high)
    if kind is str:
        return st.text("aé\u202e", min_size=bound.low, max_size=high // 3)
    each = [b.bound for b in bounds if isinstance(b, Each)]
    item = st.integers(each[0].low, each[0].high) if each else values(args[0])  # type: ignore[union-attr]
    return st.lists(item, min_size=bound.low, max_size=high).map(tuple)


@pytest.mark.parametrize(("cls", "proto"), PAIRS)
def test_field_names_are_the_same(cls: Any, proto: type[Message]) -> None:
    assert {f.name for f in fields(cls)} == {f.name for f in proto.DESCRIPTOR.fields}


@pytest.mark.parametrize(("cls", "proto"), PAIRS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_value_survives_the_way(cls: Any, proto: type[Message], data: st.DataObject) -> None:
    value = data.draw(values(cls))
    raw = convert.to_wire(proto, value).SerializeToString()
    assert convert.decode(proto, cls, raw) == value


def test_a_foreign_number_that_does_not_fit_is_not_sent() -> None:
    claim = ShareClaim(
        order_id=bytes(32), attempt=1, round=0, slot=0, issue=1, first=0, count=1, provider="p",
        global_in=bytes(32), local_in=bytes(32), local_out=bytes(32), segments=2**32,
        trace_root=bytes(32), update_root=bytes(32), executor_version=1,
    )  # fmt: skip
    with pytest.raises(OutOfBounds) as refused:
        convert.to_wire(pb.ShareClaim, claim)
    assert refused.value.field == "segments"


def test_a_value_out_of_bounds_is_not_sent() -> None:
    key = ShareKey(bytes(32), 1, 0, 0, 1)
    good = PollRequest("1", (Doing(key, Phase.TRAINING, 1, 2, NAN_BITS),))
    check(good)
    bad = PollRequest("1", (Doing(key, Phase.TRAINING, -1, 2, NAN_BITS),))
    with pytest.raises(OutOfBounds) as refused:
        convert.to_wire(pb.PollRequest, bad)
    assert refused.value.field == "doing[0].step"
