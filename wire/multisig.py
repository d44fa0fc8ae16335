"""Multisig accounts: their keys and addresses, and the signatures of their members.

A multisig key (``/cosmos.crypto.multisig.LegacyAminoPubKey``) has a threshold and the secp256k1 keys of its members.
The chain stores it in amino's binary encoding, because the address is a hash of that encoding, as on every Cosmos
chain. The encoding is longer than a key of one person, so the two cannot be confused.

A member is a key of one person: a multisig key inside another one is refused.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from cosmpy.protos.cosmos.crypto.multisig.keys_pb2 import LegacyAminoPubKey
from cosmpy.protos.cosmos.crypto.multisig.v1beta1.multisig_pb2 import CompactBitArray, MultiSignature
from cosmpy.protos.cosmos.crypto.secp256k1.keys_pb2 import PubKey
from cosmpy.protos.cosmos.tx.v1beta1.tx_pb2 import ModeInfo
from google.protobuf.any_pb2 import Any as AnyProto

from domain.errors import INVALID_PUBKEY, UNAUTHORIZED, Refusal
from domain.limits import MULTISIG_KEYS_MAX
from domain.tx import PartSignature, SignMode
from wire.address import ADDRESS_BYTES, PUB_KEY_BYTES, address_of, to_bech32
from wire.canonical import parse, read
from wire.keys import SIGNATURE_BYTES

MULTISIG_URL = "/cosmos.crypto.multisig.LegacyAminoPubKey"
PUB_KEY_URL = "/cosmos.crypto.secp256k1.PubKey"

# Amino's binary encoding: a prefix for the type, the threshold as field 1, and each key as field 2. A key has 38 bytes:
# a prefix for its type, its length, and 33 bytes.
_PREFIX = bytes.fromhex("22c1f7e208")
_MEMBER = bytes.fromhex("1226eb5ae98721")
_MEMBER_BYTES = len(_MEMBER) + PUB_KEY_BYTES
_KEY_FIELD = "auth_info.signer_infos.public_key"
_MODE_FIELD = "auth_info.signer_infos.mode_info"
_MODES = {int(mode): mode for mode in SignMode}


# --- keys ----------------------------------------------------------------------------------------


def multisig_key(threshold: int, members: Sequence[bytes]) -> bytes:
    """Return the key of a multisig account whose transactions need signatures of ``threshold`` members.

    The order of the members counts: another order is another account.
    """
    if not 0 < len(members) <= MULTISIG_KEYS_MAX:
        reason = f"has {len(members)} members"
        raise Refusal(INVALID_PUBKEY, "multisig", reason, f"use 1 to {MULTISIG_KEYS_MAX}")
    if not 0 < threshold <= len(members):
        reason = f"needs {threshold} signatures of {len(members)} members"
        raise Refusal(INVALID_PUBKEY, "multisig", reason, f"use a threshold of 1 to {len(members)}")
    for member in members:
        address_of(member)  # refuses what is not a key
    return _PREFIX + bytes([threshold]) + b"".join(_MEMBER + member for member in members)


def is_multisig(key: bytes) -> bool:
    """Return whether a key of an account is that of a multisig account."""
    return len(key) > PUB_KEY_BYTES


def members_of(key: bytes) -> tuple[int, tuple[bytes, ...]]:
    """Return the threshold and the members of a multisig key."""
    start = len(_PREFIX) + 1
    ends = range(start + _MEMBER_BYTES, len(key) + 1, _MEMBER_BYTES)
    return key[start - 1], tuple(key[end - PUB_KEY_BYTES : end] for end in ends)


def multisig_address(key: bytes) -> str:
    """Return the address of a multisig key."""
    return to_bech32(sha256(key).digest()[:ADDRESS_BYTES])


def key_address(pub_key: bytes) -> str:
    """Return the address of an account's key, of one person or of several."""
    return multisig_address(pub_key) if is_multisig(pub_key) else address_of(pub_key)


def key_proto(key: bytes) -> Any:
    """Return the key of an account, of one person or of several, as an ``Any``."""
    if not is_multisig(key):
        return AnyProto(type_url=PUB_KEY_URL, value=PubKey(key=key).SerializeToString())
    threshold, members = members_of(key)
    whole = LegacyAminoPubKey(threshold=threshold, public_keys=[key_proto(member) for member in members])
    return AnyProto(type_url=MULTISIG_URL, value=whole.SerializeToString())


def read_multisig(value: bytes) -> bytes:
    """Return the multisig key that is encoded in ``value`` as protobuf, or raise a Refusal."""
    whole = parse(LegacyAminoPubKey, value, _KEY_FIELD)
    packed = whole.public_keys[: MULTISIG_KEYS_MAX + 1]
    if len(packed) > MULTISIG_KEYS_MAX:
        raise Refusal(INVALID_PUBKEY, _KEY_FIELD, "has too many members", f"use at most {MULTISIG_KEYS_MAX}")
    members = []
    for each in packed:
        if each.type_url != PUB_KEY_URL:
            reason = f"has a member of the type {each.type_url[:100]!r}"
            raise Refusal(INVALID_PUBKEY, _KEY_FIELD, reason, f"use members of the type {PUB_KEY_URL}")
        members.append(parse(PubKey, each.value, _KEY_FIELD).key)
    return multisig_key(whole.threshold, members)


# --- signatures ----------------------------------------------------------------------------------


def read_parts(key: bytes, mode_info: bytes, signature: bytes) -> tuple[PartSignature, ...] | None:
    """Return the signatures of a multisig key's members; None if ``mode_info`` is not that of a multisig signature.

    Each bit that is set stands for a member, and for the next sign mode and signature of the lists. The bits must be as
    many as the members, and no signature may be left over. So the lists have one form.
    """
    mode = read(ModeInfo, mode_info)
    if mode is None or not mode.HasField("multi"):
        return None
    threshold, members = members_of(key)
    signers = _read_bits(mode.multi.bitarray, members)
    if signers is None:
        reason = "bit array size is incorrect, or a bit behind the last is set"
        raise Refusal(UNAUTHORIZED, _MODE_FIELD, reason, f"send {len(members)} bits, the first in the highest place")
    signatures = parse(MultiSignature, signature, "signatures").signatures
    infos = mode.multi.mode_infos
    if not len(signers) == len(signatures) == len(infos):
        reason = f"has {len(signers)} bits, {len(infos)} sign modes and {len(signatures)} signatures"
        raise Refusal(UNAUTHORIZED, _MODE_FIELD, reason, "send one of each per bit that is set")
    if len(signers) < threshold:
        reason = f"not enough signatures set, have {len(signers)}, expected {threshold}"
        raise Refusal(UNAUTHORIZED, "signatures", reason, "add signatures of other members")
    parts = []
    for member, info, part in zip(signers, infos, signatures, strict=True):
        known = _MODES.get(info.single.mode) if info.HasField("single") else None
        if known is None:
            return None
        if len(part) != SIGNATURE_BYTES:
            raise Refusal(
                UNAUTHORIZED, "signatures", f"has a part of {len(part)} bytes", f"send r and s: {SIGNATURE_BYTES} bytes"
            )
        parts.append(PartSignature(member, known, part))
    return tuple(parts)


def missing_parts(key: bytes) -> tuple[PartSignature, ...]:
    """Return parts without signatures, as many as the key needs, for the simulation of a transaction."""
    threshold, members = members_of(key)
    return tuple(PartSignature(member, SignMode.AMINO_JSON, b"") for member in members[:threshold])


def _read_bits(bits: Any, members: tuple[bytes, ...]) -> list[bytes] | None:
    """Return the members whose bits are set; None if there is not exactly one bit for each member."""
    count, elems = len(members), bits.elems
    if bits.extra_bits_stored != count % 8 or len(elems) != (count + 7) // 8:
        return None
    places = int.from_bytes(elems, "big") >> -count % 8
    if places << -count % 8 != int.from_bytes(elems, "big"):
        return None
    return [member for at, member in enumerate(members) if places >> (count - 1 - at) & 1]


def join_parts(key: bytes, parts: Sequence[PartSignature]) -> tuple[Any, bytes]:
    """Return the ``ModeInfo`` and the signature of a multisig account, made from signatures of members."""
    _, members = members_of(key)
    of = {part.key: part for part in parts}
    given = [of.get(member) for member in members]
    places = sum(1 << (len(members) - 1 - at) for at, part in enumerate(given) if part is not None)
    elems = (places << -len(members) % 8).to_bytes((len(members) + 7) // 8, "big")
    signers = [part for part in given if part is not None]
    mode = ModeInfo(
        multi=ModeInfo.Multi(
            bitarray=CompactBitArray(extra_bits_stored=len(members) % 8, elems=elems),
            mode_infos=[ModeInfo(single=ModeInfo.Single(mode=int(part.mode))) for part in signers],
        )
    )
    signature: bytes = MultiSignature(signatures=[part.signature for part in signers]).SerializeToString()
    return mode, signature
