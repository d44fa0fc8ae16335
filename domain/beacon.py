"""The beacon: a row of values that nobody chooses, one for each block (protocol section 1.5).

A proposal begins with the unique signature of its proposer's beacon key over chain, height and the beacon before it
(``wire/vrf.py``): there is one right one, so that it can neither be chosen nor tried. The next beacon is a hash of
both. What is drawn on chain takes its seed from here, and nothing from the content, the order or the time of a block.
"""

from dataclasses import dataclass

from domain.hashing import encode_fields, hash_fields, u64

REVEAL_BYTES = 97
"""Of a proof: a point of 33 bytes, which is the value, and two scalars."""
VALUE_BYTES = 33


@dataclass(frozen=True, slots=True)
class Reveal:
    """The first item of a proposal: no transaction, but in the form of one (``wire/reveal.py``)."""

    hash: bytes  # SHA-256 of the raw bytes
    proof: bytes


def first_beacon(chain_id: str, genesis_hash: bytes) -> bytes:
    """Return the beacon before block 1 (32 bytes)."""
    return hash_fields("assay/beacon/first", chain_id, genesis_hash)


def reveal_message(chain_id: str, height: int, previous: bytes) -> bytes:
    """Return what the proposer of block ``height`` signs uniquely; ``previous`` is the beacon of the block before."""
    return encode_fields("assay/beacon/reveal", chain_id, u64(height), previous)


def next_beacon(previous: bytes, proof: bytes) -> bytes:
    """Return the beacon of a block (32 bytes) from the one before and a proof that holds.

    Only the value goes in: it is the same whoever proves it, and however often.
    """
    return hash_fields("assay/beacon", previous, proof[:VALUE_BYTES])


def possession_sign_bytes(chain_id: str, operator: str, beacon_key: bytes) -> bytes:
    """Return what a beacon key signs when it is registered: nobody registers a key that he does not hold."""
    return encode_fields("assay/beacon-key", chain_id, operator, beacon_key)
