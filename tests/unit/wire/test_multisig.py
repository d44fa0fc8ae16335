"""Multisig keys have the addresses of Cosmos, and signatures of members have one encoding."""

from typing import Any

import pytest
from cosmpy.protos.cosmos.crypto.multisig.keys_pb2 import LegacyAminoPubKey
from cosmpy.protos.cosmos.crypto.multisig.v1beta1.multisig_pb2 import MultiSignature
from cosmpy.protos.cosmos.tx.v1beta1.tx_pb2 import ModeInfo
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import INVALID_PUBKEY, TX_DECODE, UNAUTHORIZED, Refusal
from domain.limits import ACCOUNT_KEY_BYTES_MAX, MULTISIG_KEYS_MAX
from domain.tx import PartSignature, SignMode
from wire.keys import Key
from wire.multisig import (
    MULTISIG_URL,
    is_multisig,
    join_parts,
    key_proto,
    members_of,
    multisig_address,
    multisig_key,
    read_multisig,
    read_parts,
)

KEYS = [Key(bytes(31) + bytes([number])) for number in range(1, MULTISIG_KEYS_MAX + 2)]
MEMBERS = [key.pub_key for key in KEYS]
TWO_OF_THREE = multisig_key(2, MEMBERS[:3])


def part(at: int, mode: SignMode = SignMode.AMINO_JSON) -> PartSignature:
    return PartSignature(MEMBERS[at], mode, bytes([at]) * 64)


def test_the_address_is_that_of_cosmjs() -> None:
    """As ``createMultisigThresholdPubkey`` and ``pubkeyToAddress`` of CosmJS 0.39 make it."""
    assert multisig_address(TWO_OF_THREE) == "assay16nsuts7ccq7c64tat6sm4uar2ammtwgvx7vwv2"


def test_another_threshold_or_order_is_another_account() -> None:
    others = (multisig_key(1, MEMBERS[:3]), multisig_key(2, MEMBERS[2::-1]), multisig_key(2, MEMBERS[:2]))
    assert len({multisig_address(key) for key in (TWO_OF_THREE, *others)}) == 4


@given(st.integers(1, MULTISIG_KEYS_MAX), st.data())
def test_a_key_comes_back_from_protobuf(count: int, data: st.DataObject) -> None:
    members = tuple(data.draw(st.permutations(MEMBERS))[:count])
    threshold = data.draw(st.integers(1, count))
    key = multisig_key(threshold, members)
    assert members_of(key) == (threshold, members)
    assert is_multisig(key)
    assert len(key) <= ACCOUNT_KEY_BYTES_MAX
    whole = key_proto(key)
    assert whole.type_url == MULTISIG_URL
    assert read_multisig(whole.value) == key


def test_the_longest_key_fits_an_account() -> None:
    assert len(multisig_key(1, MEMBERS[:MULTISIG_KEYS_MAX])) == ACCOUNT_KEY_BYTES_MAX


def nested() -> LegacyAminoPubKey:
    return LegacyAminoPubKey(threshold=1, public_keys=[key_proto(TWO_OF_THREE)])


def deep() -> LegacyAminoPubKey:
    whole = key_proto(TWO_OF_THREE)
    for _ in range(10_000):
        inner = LegacyAminoPubKey(threshold=1, public_keys=[whole])
        whole.value = inner.SerializeToString()
        if len(whole.value) > 200_000:
            break
    return LegacyAminoPubKey.FromString(whole.value)


def member(number: int) -> Any:
    return key_proto(MEMBERS[number])


WRONG = {
    "no members": LegacyAminoPubKey(threshold=1),
    "no threshold": LegacyAminoPubKey(public_keys=[member(0)]),
    "threshold above the members": LegacyAminoPubKey(threshold=3, public_keys=[member(0), member(1)]),
    "largest threshold": LegacyAminoPubKey(threshold=2**32 - 1, public_keys=[member(0)]),
    "too many members": LegacyAminoPubKey(threshold=1, public_keys=map(member, range(MULTISIG_KEYS_MAX + 1))),
    "100,000 members": LegacyAminoPubKey(threshold=1, public_keys=[member(0)] * 3_000),
    "a multisig key inside": nested(),
    "10,000 multisig keys inside each other": deep(),
}


@pytest.mark.parametrize("whole", WRONG.values(), ids=WRONG)
def test_wrong_keys_are_refused(whole: LegacyAminoPubKey) -> None:
    with pytest.raises(Refusal) as refused:
        read_multisig(whole.SerializeToString())
    assert refused.value.code == INVALID_PUBKEY
    assert refused.value.remedy


@pytest.mark.parametrize("tail", [b"\x18\x01", b"\x08\x02", b"\xff"])
def test_a_key_has_one_encoding(tail: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        read_multisig(key_proto(TWO_OF_THREE).value + tail)
    assert refused.value.code == TX_DECODE


@given(st.integers(1, MULTISIG_KEYS_MAX), st.data())
def test_signatures_come_back_from_protobuf(count: int, data: st.DataObject) -> None:
    signers = sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1)))
    key = multisig_key(data.draw(st.integers(1, len(signers))), MEMBERS[:count])
    parts = tuple(part(at, data.draw(st.sampled_from(SignMode))) for at in signers)
    mode, signature = join_parts(key, data.draw(st.permutations(parts)))
    assert read_parts(key, mode.SerializeToString(), signature) == parts


def test_the_bits_are_those_of_the_sdk() -> None:
    """The first member has the highest bit of the first byte."""
    mode, _ = join_parts(TWO_OF_THREE, [part(0), part(2)])
    assert (mode.multi.bitarray.extra_bits_stored, mode.multi.bitarray.elems) == (3, b"\xa0")
    mode, _ = join_parts(multisig_key(1, MEMBERS[:16]), [part(7), part(8)])
    assert (mode.multi.bitarray.extra_bits_stored, mode.multi.bitarray.elems) == (0, b"\x01\x80")


def bits(extra: int, elems: bytes) -> Any:
    def bend(mode: ModeInfo, signatures: list[bytes]) -> None:
        mode.multi.bitarray.extra_bits_stored = extra
        mode.multi.bitarray.elems = elems

    return bend


def extra_signature(mode: ModeInfo, signatures: list[bytes]) -> None:
    signatures.append(bytes(64))


def extra_pair(mode: ModeInfo, signatures: list[bytes]) -> None:
    signatures.append(bytes(64))
    mode.multi.mode_infos.add().single.mode = 127


def one_fewer(mode: ModeInfo, signatures: list[bytes]) -> None:
    del signatures[1:]


def short(mode: ModeInfo, signatures: list[bytes]) -> None:
    signatures[0] = bytes(63)


BENDS = {
    "no bits": bits(0, b""),
    "two bits": bits(2, b"\xc0"),
    "four bits": bits(4, b"\xc0"),
    "eight bits": bits(0, b"\xc0"),
    "one bit set": bits(3, b"\x80"),
    "three bits set": bits(3, b"\xe0"),
    "a bit behind the last": bits(3, b"\xd0"),
    "a byte too many": bits(3, b"\xc0\x00"),
    "a byte in front": bits(3, b"\x00\xc0"),
    "so many bits": bits(2**32 - 1, b"\xc0"),
    "a signature without a bit": extra_signature,
    "a signature and a mode without a bit": extra_pair,
    "a signature too few": one_fewer,
    "a short signature": short,
}


@pytest.mark.parametrize("bend", BENDS.values(), ids=BENDS)
def test_wrong_lists_are_refused(bend: Any) -> None:
    mode, signature = join_parts(TWO_OF_THREE, [part(0), part(1)])
    signatures = list(MultiSignature.FromString(signature).signatures)
    assert read_parts(TWO_OF_THREE, mode.SerializeToString(), signature) == (part(0), part(1))
    bend(mode, signatures)
    with pytest.raises(Refusal) as refused:
        read_parts(TWO_OF_THREE, mode.SerializeToString(), MultiSignature(signatures=signatures).SerializeToString())
    assert refused.value.code == UNAUTHORIZED


def test_fewer_signatures_than_needed_are_refused() -> None:
    mode, signature = join_parts(TWO_OF_THREE, [part(1)])
    with pytest.raises(Refusal, match="not enough signatures set, have 1, expected 2"):
        read_parts(TWO_OF_THREE, mode.SerializeToString(), signature)


@pytest.mark.parametrize("tail", [b"\x0a\x00"[:1], b"\x12\x00", b"\xf8\x07\x01"])
def test_the_list_of_signatures_has_one_encoding(tail: bytes) -> None:
    mode, signature = join_parts(TWO_OF_THREE, [part(0), part(1)])
    with pytest.raises(Refusal) as refused:
        read_parts(TWO_OF_THREE, mode.SerializeToString(), signature + tail)
    assert refused.value.code == TX_DECODE


@pytest.mark.parametrize("mode_info", [b"", b"\xff", ModeInfo(single={"mode": 127}).SerializeToString()])
def test_a_mode_of_one_person_is_none_of_several(mode_info: bytes) -> None:
    assert read_parts(TWO_OF_THREE, mode_info, bytes(64)) is None


def test_sign_modes_inside_each_other_are_no_mode_of_a_member() -> None:
    mode, signature = join_parts(TWO_OF_THREE, [part(0), part(1)])
    inner = ModeInfo.FromString(mode.SerializeToString())
    mode.multi.mode_infos[0].CopyFrom(inner)
    assert read_parts(TWO_OF_THREE, mode.SerializeToString(), signature) is None
