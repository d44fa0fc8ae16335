"""The beacon: a sequence of values that no one can choose, one per block (protocol section 1.5).

A proposal begins with a unique signature by its proposer's beacon key over chain, height and the previous beacon
(``wire/vrf.py``). Exactly one signature is valid, so the proposer cannot choose among several. The next beacon is a
hash of the previous beacon and the signature. The seed of each draw on chain comes from the beacon, never from the
content, the order or the time of a block.
"""

from dataclasses import dataclass

from domain.hashing import encode_fields, hash_fields, u64

REVEAL_BYTES = 97
"""Size of a proof: a point of 33 bytes (the value) and two scalars of 32 bytes."""
VALUE_BYTES = 33


@dataclass(frozen=True, slots=True)
class Reveal:
    """The first item of a block proposal: the proposer's beacon proof in the form of a transaction
    (``wire/reveal.py``).
    """

    hash: bytes  # SHA-256 of the raw bytes
    proof: bytes


def first_beacon(chain_id: str, genesis_hash: bytes) -> bytes:
    """Return the beacon before block 1 (32 bytes)."""
    return hash_fields("assay/beacon/first", chain_id, genesis_hash)


def reveal_message(chain_id: str, height: int, previous: bytes) -> bytes:
    """Return the bytes that the proposer of block ``height`` signs.

    ``previous`` is the beacon of the block before it.
    """
    return encode_fields("assay/beacon/reveal", chain_id, u64(height), previous)


def next_beacon(previous: bytes, proof: bytes) -> bytes:
    """Return the beacon of a block (32 bytes) from the previous beacon and a valid proof.

    Only the proof's value is hashed, so that all proofs of one value would give the same beacon.
    """
    return hash_fields("assay/beacon", previous, proof[:VALUE_BYTES])


def possession_sign_bytes(chain_id: str, operator: str, beacon_key: bytes) -> bytes:
    """Return the bytes that a beacon key signs at its registration, which prove that the operator holds the key."""
    return encode_fields("assay/beacon-key", chain_id, operator, beacon_key)
