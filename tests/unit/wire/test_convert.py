"""Domain types and protobuf messages agree field by field, and values that do not fit are refused by name."""

import re
from dataclasses import FrozenInstanceError, dataclass, fields, is_dataclass, replace
from enum import IntEnum
from typing import Annotated, Any, get_args, get_origin

import pytest
from cosmpy.protos.cosmos.authz.v1beta1 import tx_pb2 as authz
from cosmpy.protos.cosmos.distribution.v1beta1 import tx_pb2 as distribution
from cosmpy.protos.cosmos.feegrant.v1beta1 import tx_pb2 as feegrant
from cosmpy.protos.cosmos.gov.v1 import tx_pb2 as gov
from cosmpy.protos.cosmos.gov.v1beta1 import tx_pb2 as old_gov
from cosmpy.protos.cosmos.slashing.v1beta1 import tx_pb2 as slashing
from cosmpy.protos.cosmos.staking.v1beta1 import tx_pb2 as staking
from google.protobuf.any_pb2 import Any as AnyProto

from assay.attest.v1 import tx_pb2 as attest
from assay.disputes.v1 import tx_pb2 as disputes
from assay.gov.v1 import tx_pb2 as ours_gov
from assay.market.v1 import tx_pb2 as market
from assay.market.v1 import types_pb2 as market_types
from assay.pol.v1 import tx_pb2 as pol
from assay.registry.v1 import tx_pb2 as registry
from domain.bounds import (
    ByteCount,
    MaybeName,
    Mismatch,
    Name,
    Range,
    Tags,
    choices_of,
    hints_of,
    is_boxed,
    item_of,
    split,
    without_none,
)
from domain.errors import Refusal
from domain.ledger.records import BondKind, BondRow, Payment
from domain.market.messages import MsgPlaceBid
from domain.market.records import Conditions, Offer
from domain.messages import Message
from domain.vocabulary import MESSAGES
from tests.support.bounded import bends, sample
from wire.address import to_bech32
from wire.convert import _writer as unchecked
from wire.convert import maker, reader, writer
from wire.messages import TYPE_URLS, from_bytes, response_class, to_proto
from wire.modules import descriptor_of
from wire.queries import METHODS
from wire.reveal import REVEAL_URL

ADDRESS = to_bech32(bytes(range(20)))


def top_level() -> list[tuple[Any, Any]]:
    """Return every pair of a domain type and a descriptor that the wire knows."""
    pairs = [(cls, proto.DESCRIPTOR) for proto, cls in TYPE_URLS.values()]
    for method in METHODS.values():
        pairs.append((method.request, method.request_proto.DESCRIPTOR))
        pairs.append((method.response, method.response_proto.DESCRIPTOR))
    return pairs


def check(hint: Any, descriptor: Any, seen: set[str]) -> None:
    """Compare a domain type with a descriptor, and all that is inside them."""
    if get_origin(hint) is tuple:
        inside = list(zip(get_args(hint), descriptor.fields, strict=True))
    else:
        assert is_dataclass(hint)
        names = [field.name for field in fields(hint)]
        assert names == [field.name for field in descriptor.fields], descriptor.full_name
        if descriptor.file.package.startswith("assay."):
            assert [f.number for f in descriptor.fields] == list(range(1, len(names) + 1))
            assert hint.__name__ == descriptor.name  # type: ignore[union-attr]
        hints = dict(hints_of(hint))  # type: ignore[arg-type]  # a class, not an instance
        inside = [(hints[field.name], field) for field in descriptor.fields]
    seen.add(descriptor.full_name)
    for part, field in inside:
        compare(part, field, seen)


def compare(hint: Any, field: Any, seen: set[str]) -> None:
    """Compare one field."""
    hint, optional = without_none(hint)
    # A text without characters is no number.
    is_digits = split(hint)[0] is int and field.type == field.TYPE_STRING
    has_presence = field.message_type is not None or is_digits
    assert not optional or has_presence, f"{field.full_name}: None needs presence"
    repeated = item_of(split(hint)[0])
    assert (repeated is not None) == (field.label == field.LABEL_REPEATED), field.full_name
    item, _ = split(hint if repeated is None else repeated)
    if is_boxed(item) or choices_of(item):
        assert field.message_type.full_name == "google.protobuf.Any", field.full_name
        for choice in choices_of(item):
            check(choice, descriptor_of(choice.URL), seen)
    elif field.message_type is not None:
        check(item, field.message_type, seen)
    elif isinstance(item, type) and issubclass(item, IntEnum):
        assert {case.name: case.value for case in item} == {
            value.name.removeprefix(_prefix(item.__name__)): value.number
            for value in field.enum_type.values
            if value.number
        }
    else:
        kinds = {
            int: {field.TYPE_STRING, field.TYPE_UINT32, field.TYPE_UINT64, field.TYPE_INT32}
            | {field.TYPE_INT64, field.TYPE_ENUM},
            str: {field.TYPE_STRING},
            bytes: {field.TYPE_BYTES},
            bool: {field.TYPE_BOOL},
        }
        assert field.type in kinds[item], field.full_name


def _prefix(name: str) -> str:
    return "".join("_" + c if c.isupper() else c.upper() for c in name).lstrip("_") + "_"


def name_of(part: Any) -> str:
    """Return how a pair is called in the report."""
    return str(getattr(part, "full_name", part))[-60:]


@pytest.mark.parametrize(("cls", "descriptor"), top_level(), ids=name_of)
def test_domain_and_protobuf_have_the_same_fields_in_the_same_order(cls: Any, descriptor: Any) -> None:
    check(cls, descriptor, set())


def test_every_message_and_every_protobuf_message_has_its_twin() -> None:
    assert {cls for _, cls in TYPE_URLS.values()} == set(MESSAGES)
    ours = {
        f"/{file.package}.{name}"
        for file in (
            registry.DESCRIPTOR,
            market.DESCRIPTOR,
            pol.DESCRIPTOR,
            disputes.DESCRIPTOR,
            attest.DESCRIPTOR,
            ours_gov.DESCRIPTOR,
        )
        for name in file.message_types_by_name
        if name.startswith("Msg") and not name.endswith("Response")
    }
    unused = ("MsgUpdateParams", "MsgDepositValidatorRewardsPool")
    of_cosmos = {
        f"/{file.package}.{name}"
        for file in (
            staking.DESCRIPTOR,
            feegrant.DESCRIPTOR,
            authz.DESCRIPTOR,
            slashing.DESCRIPTOR,
            distribution.DESCRIPTOR,
        )
        for name in file.message_types_by_name
        if not name.endswith("Response") and name not in unused
    }
    votes = {f"/{old_gov.DESCRIPTOR.package}.Msg{name}" for name in ("Deposit", "Vote", "VoteWeighted")}
    governed = votes | {
        f"/{gov.DESCRIPTOR.package}.Msg{name}" for name in ("SubmitProposal", "Deposit", "Vote", "VoteWeighted")
    }
    # The reveal is no message of a transaction.
    assert ours | of_cosmos | governed | {"/cosmos.bank.v1beta1.MsgSend"} == {REVEAL_URL, *TYPE_URLS}
    assert "/assay.market.v1.MsgSubmitOrder" in TYPE_URLS


def test_every_message_has_a_response_and_a_method_of_its_service() -> None:
    for url, (proto, _) in TYPE_URLS.items():
        response = proto.DESCRIPTOR.file.message_types_by_name[proto.DESCRIPTOR.name + "Response"]
        methods = proto.DESCRIPTOR.file.services_by_name["Msg"].methods
        assert (proto.DESCRIPTOR, response) in [(m.input_type, m.output_type) for m in methods], url
    assert response_class(bid()).DESCRIPTOR.full_name == "assay.market.v1.MsgPlaceBidResponse"


@dataclass(frozen=True)
class TooFew:
    """Not all fields."""

    device_class: MaybeName


@dataclass(frozen=True)
class WrongKind:
    """A text where a number is."""

    device_class: MaybeName
    memory: Name
    regions: Tags
    tier: MaybeName


@dataclass(frozen=True)
class NotRepeated:
    """One where there are many."""

    device_class: MaybeName
    memory: ByteCount
    regions: Name
    tier: MaybeName


@dataclass(frozen=True)
class TextWithoutBound:
    """A text of any length."""

    device_class: str
    memory: ByteCount
    regions: Tags
    tier: MaybeName


@dataclass(frozen=True)
class NumberWithoutBound:
    """A number of any size."""

    device_class: MaybeName
    memory: int
    regions: Tags
    tier: MaybeName


@dataclass(frozen=True)
class ListWithoutBound:
    """A list of any length."""

    device_class: MaybeName
    memory: ByteCount
    regions: tuple[Name, ...]
    tier: MaybeName


@dataclass(frozen=True)
class WiderThanTheWire:
    """A number that the wire has no room for."""

    device_class: MaybeName
    memory: Annotated[int, Range(0, 2**64)]
    regions: Tags
    tier: MaybeName


@pytest.mark.parametrize(
    "cls",
    [
        TooFew,
        WrongKind,
        NotRepeated,
        TextWithoutBound,
        NumberWithoutBound,
        ListWithoutBound,
        WiderThanTheWire,
    ],
)
def test_a_type_that_drifts_from_its_message_has_no_converter(cls: type) -> None:
    with pytest.raises(Mismatch):
        reader(cls, market_types.Conditions.DESCRIPTOR)
    with pytest.raises(Mismatch):
        writer(cls, market_types.Conditions.DESCRIPTOR)


OFFERED = {field.name for field in fields(Offer)}


def bid(**changes: Any) -> MsgPlaceBid:
    """Return a bid that has a place on the wire, with changes."""
    offer = Offer(
        price=1,
        slot_speed=2**100,
        slots=4,
        device_class="cpu",
        memory=1,
        regions=("eu",),
        max_work=1,
        providers_bps=7_900,
    )
    offered = {name: changes.pop(name) for name in OFFERED & changes.keys()}
    message = MsgPlaceBid(ADDRESS, replace(offer, **offered), capacity=2**128 - 1, duration=60)
    return replace(message, **changes)


def read_bid(**changes: Any) -> Message:
    """Change fields of a good bid on the wire, and read it."""
    message = market.MsgPlaceBid.FromString(to_proto(bid()).value)
    for name, value in changes.items():
        holder = message.offer if name in OFFERED else message
        if isinstance(value, list):
            del getattr(holder, name)[:]
            getattr(holder, name).extend(value)
        else:
            setattr(holder, name, value)
    return from_bytes("/assay.market.v1.MsgPlaceBid", message.SerializeToString(), "m")


@pytest.mark.parametrize(
    ("changes", "field", "code"),
    [
        ({"validator": ""}, "m.validator", "invalid_address"),
        ({"validator": ADDRESS[:-1] + "q"}, "m.validator", "invalid_address"),
        ({"price": ""}, "m.offer.price", "tx_decode"),
        ({"price": "007"}, "m.offer.price", "tx_decode"),
        ({"price": str(2**63)}, "m.offer.price", "tx_decode"),
        ({"capacity": str(2**128)}, "m.capacity", "tx_decode"),
        ({"capacity": "9" * 5_000}, "m.capacity", "tx_decode"),
        ({"device_class": "gpu\n"}, "m.offer.device_class", "tx_decode"),
        ({"device_class": "gpu\x00"}, "m.offer.device_class", "tx_decode"),
        ({"device_class": "\u202egpu"}, "m.offer.device_class", "tx_decode"),
        ({"device_class": "g\u200bpu"}, "m.offer.device_class", "tx_decode"),
        ({"regions": ["eu", "u\x7fs"]}, "m.offer.regions[1]", "tx_decode"),
        ({"regions": ["us", "eu"]}, "m.offer.regions", "bad_field"),
        ({"regions": [f"r{n:02}" for n in range(17)]}, "m.offer.regions", "bad_field"),
        ({"price": "0"}, "m.offer.price", "bad_field"),
        ({"device_class": ""}, "m.offer.device_class", "bad_field"),
        ({"device_class": "x" * 33}, "m.offer.device_class", "bad_field"),
        ({"providers_bps": 10_001}, "m.offer.providers_bps", "bad_field"),
        ({"duration": 0}, "m.duration", "bad_field"),
    ],
)
def test_values_of_the_wrong_form_are_refused_by_name(changes: dict[str, Any], field: str, code: str) -> None:
    with pytest.raises(Refusal) as refused:
        read_bid(**changes)
    assert (refused.value.field, refused.value.code.name) == (field, code)
    assert refused.value.remedy


def test_texts_of_any_script_are_values() -> None:
    read = read_bid(device_class="größe 計算 مركز", price="1", capacity=str(2**128 - 1))
    assert isinstance(read, MsgPlaceBid)
    assert (read.offer.device_class, read.offer.price, read.capacity) == (
        "größe 計算 مركز",
        1,
        2**128 - 1,
    )


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"price": 0}, "offer.price"),
        ({"price": 2**63}, "offer.price"),
        ({"capacity": 2**128}, "capacity"),
        ({"memory": 2**63}, "offer.memory"),
        ({"providers_bps": -1}, "offer.providers_bps"),
    ],
)
def test_what_has_no_place_on_the_wire_is_refused_before_it_is_sent(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(Refusal) as refused:
        to_proto(bid(**changes))
    assert refused.value.field == field


def test_a_record_that_is_not_there_is_missed_and_a_hash_has_its_length() -> None:
    key = b"\x02" + bytes(32)
    order = market.MsgSubmitOrder(consumer=ADDRESS, order_key=key, key_proof=bytes(64))
    url = "/assay.market.v1.MsgSubmitOrder"
    with pytest.raises(Refusal, match=r"m\.terms: is missing"):
        from_bytes(url, order.SerializeToString(), "m")
    order.terms.job_id = bytes(31)
    with pytest.raises(Refusal, match=r"m\.terms\.job_id: has 31 bytes; send exactly 32"):
        from_bytes(url, order.SerializeToString(), "m")


def test_enums_are_known_numbers() -> None:
    read = reader(BondRow, market_types.BondRow.DESCRIPTOR)
    row = market_types.BondRow(kind=market_types.BOND_KIND_SHARE, owner=ADDRESS, amount="0")
    assert read(row).kind is BondKind.SHARE
    for number in (0, 6, -1):
        with pytest.raises(Refusal, match=f"kind: {number} is not known"):
            read(market_types.BondRow(kind=number, amount="0"))  # type: ignore[arg-type]


def test_a_round_of_minus_one_is_a_value() -> None:
    payment = Payment(ADDRESS, "protocol", 5, -1)
    message = writer(Payment, market_types.Payment.DESCRIPTOR)(payment)
    assert reader(Payment, market_types.Payment.DESCRIPTOR)(message) == payment


def test_a_wrong_field_deep_inside_is_named_with_its_path() -> None:
    traces = pol.MsgCommitTraces(validator=ADDRESS, order_id=bytes(32))
    good = traces.shares.add()
    good.claim.provider = ADDRESS
    for name in ("order_id", "commitment"):
        setattr(good.claim, name, bytes(32))
    good.claim.multiple = 1
    good.signature = bytes(64)
    traces.shares.add().CopyFrom(good)
    traces.shares[1].claim.commitment = b"short"
    with pytest.raises(Refusal, match=r"m\.shares\[1\]\.claim\.commitment: has 5 bytes"):
        from_bytes("/assay.pol.v1.MsgCommitTraces", traces.SerializeToString(), "m")


def test_unknown_kinds_of_messages_are_refused_with_the_page_of_known_ones() -> None:
    with pytest.raises(Refusal, match=r"m\.type_url.*page reference/messages"):
        from_bytes("/cosmos.crisis.v1beta1.MsgVerifyInvariant", b"", "m")
    assert Conditions() == reader(Conditions, market_types.Conditions.DESCRIPTOR)(market_types.Conditions())


def pack(message: Message) -> Any:
    """Return a message as an ``Any`` without a check of its bounds."""
    proto, cls = TYPE_URLS[message.URL]
    return AnyProto(type_url=message.URL, value=unchecked(cls, proto.DESCRIPTOR, pack)(message).SerializeToString())


def unpack(packed: Any) -> Message:
    return from_bytes(packed.type_url, packed.value, "")


@pytest.mark.parametrize(("cls", "descriptor"), top_level(), ids=name_of)
def test_what_is_just_outside_a_bound_is_neither_read_nor_written(cls: Any, descriptor: Any) -> None:
    value = sample(cls)
    assert reader(cls, descriptor, unpack)(writer(cls, descriptor, to_proto)(value)) == value
    for path, bad in bends(cls, value):
        with pytest.raises(Refusal) as refused:
            writer(cls, descriptor, to_proto)(bad)
        assert refused.value.field == path
        try:
            message = unchecked(cls, descriptor, pack)(bad)
        except (ValueError, TypeError):  # protobuf itself has no room for it
            continue
        with pytest.raises(Refusal) as refused:
            reader(cls, descriptor, unpack)(message)
        # The parts of a tuple have names on the wire.
        assert refused.value.field.startswith(re.sub(r"\]\[\d+\]$", "].", path))


def test_a_record_that_is_made_of_its_values_is_frozen_like_any_other() -> None:
    made, built = (
        maker(Payment)(*range(len(fields(Payment)))),
        Payment(*range(len(fields(Payment)))),
    )
    assert (type(made), made, hash(made), repr(made)) == (Payment, built, hash(built), repr(built))
    with pytest.raises(FrozenInstanceError):
        made.amount = 1  # type: ignore[misc]  # what is tested


def test_a_class_whose_constructor_does_more_has_no_maker() -> None:
    @dataclass(frozen=True, slots=True)
    class Strict:
        value: int

        def __post_init__(self) -> None:
            raise AssertionError

    with pytest.raises(Mismatch, match="does more than set its fields"):
        maker(Strict)
