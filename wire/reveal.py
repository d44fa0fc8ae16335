"""The encoding of a proposer's reveal: a ``TxRaw`` with one message, without a signature and with an empty fee.

Explorers and indexers can read a reveal like any transaction of a block. Each proof has exactly one encoding.
"""

from hashlib import sha256

from cosmpy.protos.cosmos.tx.v1beta1.tx_pb2 import AuthInfo, Fee, TxBody, TxRaw
from google.protobuf.any_pb2 import Any as AnyProto

from assay.registry.v1.tx_pb2 import MsgReveal
from domain.beacon import REVEAL_BYTES, Reveal

REVEAL_URL = "/assay.registry.v1.MsgReveal"


def encode_reveal(proof: bytes) -> bytes:
    """Return the encoded reveal with this proof; it is the first item of a block proposal."""
    message = AnyProto(type_url=REVEAL_URL, value=MsgReveal(proof=proof).SerializeToString())
    raw: bytes = TxRaw(
        body_bytes=TxBody(messages=[message]).SerializeToString(),
        auth_info_bytes=AuthInfo(fee=Fee()).SerializeToString(),
    ).SerializeToString()
    return raw


_BLANK = encode_reveal(bytes(REVEAL_BYTES))
_AT = _BLANK.index(bytes(REVEAL_BYTES))
_HEAD, _TAIL = _BLANK[:_AT], _BLANK[_AT + REVEAL_BYTES :]


def decode_reveal(raw: bytes) -> Reveal | None:
    """Return the reveal that ``raw`` encodes, or None if ``raw`` is not a reveal."""
    if len(raw) != len(_BLANK) or not (raw.startswith(_HEAD) and raw.endswith(_TAIL)):
        return None
    return Reveal(sha256(raw).digest(), raw[_AT : _AT + REVEAL_BYTES])
