"""The link's signed envelope, the secret of an order, the hand-over of a result, and unique signatures."""

from dataclasses import replace
from hashlib import sha256
from typing import Any

from link.calls import encode
from link.envelope import Envelope, SignedRequest, sign_bytes
from link.handover import (
    ciphertext_root,
    open_chunk,
    order_secret,
    public_point,
    seal_result,
)
from pol.rules.handover import HandoverId, sealed_leaf
from wire.keys import Key
from wire.vrf import hash_to_curve, prove, value_of, verify

CHAIN_ID = "assay-vectors-1"
ACCOUNT = Key(sha256(b"vectors account").digest())
VALIDATOR = Key(sha256(b"vectors validator").digest())
JOB_ID = sha256(b"vectors job").digest()
CHUNKS = (b"header", bytes(range(64)), b"")


def build_link() -> Any:
    """Return a signed request: what is signed, and its bytes on the wire."""
    body = b"the request"
    audience = sha256(b"certificate").digest()
    unsigned = Envelope(
        CHAIN_ID,
        audience,
        ACCOUNT.address,
        ACCOUNT.pub_key,
        "Poll",
        1_700_000_000,
        bytes(range(16)),
        bytes(64),
    )
    document = sign_bytes(unsigned, body)
    envelope = replace(unsigned, signature=ACCOUNT.sign(document))
    request = SignedRequest(envelope, body)
    return {
        "secret": ACCOUNT.secret.hex(),
        "chain_id": CHAIN_ID,
        "audience": audience.hex(),
        "caller": ACCOUNT.address,
        "method": "Poll",
        "unix_time": unsigned.unix_time,
        "nonce": unsigned.nonce.hex(),
        "body": body.hex(),
        "sign_bytes": document.hex(),
        "signature": envelope.signature.hex(),
        "request": encode(request).hex(),
    }


def build_handover() -> Any:
    """Return secrets of orders, and a result of three chunks sealed for one of them."""
    handover = HandoverId(CHAIN_ID, sha256(b"vectors order").digest(), 2, 9)
    secret = order_secret(ACCOUNT.secret, CHAIN_ID, JOB_ID, 5)
    sealed = list(seal_result(handover, CHUNKS, public_point(secret), VALIDATOR.secret))
    opened = [open_chunk(handover, index, chunk, secret) for index, chunk in enumerate(sealed)]
    assert opened == list(CHUNKS)
    return {
        "chain_id": CHAIN_ID,
        "account_secret": ACCOUNT.secret.hex(),
        "validator_secret": VALIDATOR.secret.hex(),
        "job_id": JOB_ID.hex(),
        "orders": [_order(sequence) for sequence in (0, 5, 2**40)],
        "order_id": handover.order_id.hex(),
        "leg": handover.leg,
        "round": handover.round,
        "sequence": 5,
        "chunks": [
            {
                "chunk": chunk.hex(),
                "point": closed.point.hex(),
                "ciphertext": closed.ciphertext.hex(),
                "leaf": sealed_leaf(handover, index, closed.leaf).hex(),
            }
            for index, (chunk, closed) in enumerate(zip(CHUNKS, sealed, strict=True))
        ],
        "ciphertext_root": ciphertext_root(handover, [chunk.leaf for chunk in sealed]).hex(),
    }


def _order(sequence: int) -> dict[str, Any]:
    secret = order_secret(ACCOUNT.secret, CHAIN_ID, JOB_ID, sequence)
    return {
        "sequence": sequence,
        "secret": secret.hex(),
        "order_key": public_point(secret).hex(),
    }


def build_vrf() -> Any:
    """Return values of two keys for several messages, with their proofs."""
    return {
        "cases": [
            _value(key, message) for key in (ACCOUNT, VALIDATOR) for message in (b"", b"message", bytes(range(256)))
        ]
    }


def _value(key: Key, message: bytes) -> dict[str, str]:
    proof = prove(key.secret, message)
    assert verify(key.pub_key, message, proof)
    return {
        "secret": key.secret.hex(),
        "pub_key": key.pub_key.hex(),
        "message": message.hex(),
        "point": hash_to_curve(message).format().hex(),
        "value": value_of(proof).hex(),
        "proof": proof.hex(),
    }
