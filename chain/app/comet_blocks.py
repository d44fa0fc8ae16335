"""Whole blocks, validator sets and the index of transactions of the CometBFT on this machine, over its JSON-RPC."""

import base64
from collections.abc import Callable, Sequence
from threading import BoundedSemaphore, Lock, local
from typing import Any, Final

import requests
from cosmpy.protos.tendermint.p2p.types_pb2 import DefaultNodeInfo
from cosmpy.protos.tendermint.types.block_pb2 import Block
from cosmpy.protos.tendermint.types.types_pb2 import BlockID
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import ParseDict, ParseError

from chain.app.interfaces import UNREACHABLE, NodeAbout, VotingValidator, WholeBlock
from domain.errors import INVALID_REQUEST, Refusal

TIMEOUT_SECONDS: Final = 4.0
_CALLS_MAX: Final = 2
"""Largest number of calls at once, so that a slow CometBFT holds only a part of the threads that answer queries."""
_WAIT_SECONDS: Final = 0.5
"""Longest wait (s) for one of these calls to end."""
_BLOCKS_KEPT: Final = 8
"""Number of blocks that are kept, because explorers ask for the newest blocks again and again."""
_PAGE: Final = 100
_VALIDATORS_MAX: Final = 1_000
_BASE64: Final = frozenset({"txs", "signature"})  # fields that CometBFT writes in base64; other bytes are in hex
_EVIDENCE: Final = {
    "tendermint/DuplicateVoteEvidence": (
        "duplicate_vote_evidence",
        {
            "vote_a": "vote_a",
            "vote_b": "vote_b",
            "TotalVotingPower": "total_voting_power",
            "ValidatorPower": "validator_power",
            "Timestamp": "timestamp",
        },
    ),
    "tendermint/LightClientAttackEvidence": (
        "light_client_attack_evidence",
        {
            "CommonHeight": "common_height",
            "TotalVotingPower": "total_voting_power",
            "Timestamp": "timestamp",
        },
    ),
}
"""Kinds of evidence in CometBFT's JSON: the field of ``Evidence``, and the fields in it that are shown."""


class CometBlocks:
    """The ``BlockReader`` of a node with CometBFT; any thread may call."""

    def __init__(self, rpc_url: str, timeout: float = TIMEOUT_SECONDS) -> None:
        """Store the address; the first call connects to it."""
        self._url = rpc_url
        self._timeout = timeout
        self._slots = BoundedSemaphore(_CALLS_MAX)
        self._lock = Lock()
        self._kept: dict[int, WholeBlock] = {}  # by height, the first one kept is the first one dropped
        self._threads = local()  # a session must not be shared by threads

    def block(self, height: int) -> WholeBlock | None:
        """Return a committed block, or None if CometBFT does not have it."""
        block: WholeBlock | None = self._kept.get(height)
        if block is None:
            block = self._read("block", {"height": str(height)}, _read_block)
            if block is not None:
                self._keep(height, block)
        return block

    def _keep(self, height: int, block: WholeBlock) -> None:
        with self._lock:
            self._kept[height] = block
            while len(self._kept) > _BLOCKS_KEPT:
                del self._kept[next(iter(self._kept))]

    def validators(self, height: int) -> Sequence[VotingValidator]:
        """Return the validator set of a height, in the order of its votes."""
        listed: list[VotingValidator] = []
        while len(listed) < _VALIDATORS_MAX:
            page = {"height": str(height), "page": str(len(listed) // _PAGE + 1), "per_page": str(_PAGE)}
            part = self._read("validators", page, _read_validators) or []
            listed += part
            if len(part) < _PAGE:
                break
        return listed

    def search_txs(self, query: str, page: int, limit: int, newest_first: bool) -> tuple[list[bytes], int]:
        """Return the hashes of one page of the transactions that fit a query, and the number of all."""
        order = "desc" if newest_first else "asc"
        asked = {"query": query, "page": str(page), "per_page": str(limit), "order_by": order}
        answer: tuple[list[bytes], int] | None = self._read("tx_search", asked, _read_hashes)
        if answer is None:
            remedy = "send conditions such as message.sender='assay1…' AND tx.height>7, and a page that exists"
            raise Refusal(INVALID_REQUEST, "query", "is not a query that CometBFT can answer", remedy)
        return answer

    def about(self) -> NodeAbout:
        """Return the node's identity."""
        about: NodeAbout | None = self._read("status", {}, _read_about)
        if about is None:
            raise _away()
        return about

    def _read(self, method: str, params: dict[str, str], read: Callable[[Any], Any]) -> Any:
        """Return what ``read`` makes of CometBFT's answer, or None if CometBFT refuses the call."""
        if not self._slots.acquire(timeout=_WAIT_SECONDS):
            raise _away()
        try:
            call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            answer = self._session().post(self._url, json=call, timeout=self._timeout).json()
            return None if answer.get("error") else read(answer["result"])
        except (requests.RequestException, ValueError, LookupError, TypeError, AttributeError, ParseError):
            raise _away() from None
        finally:
            self._slots.release()

    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._threads, "session", None)
        if session is None:
            session = self._threads.session = requests.Session()
            session.trust_env = False  # CometBFT is on this machine, so no proxy is used
        return session


def _away() -> Refusal:
    return Refusal(UNREACHABLE, "block", "CometBFT does not answer", "try again in a few seconds")


def _read_block(result: Any) -> WholeBlock | None:
    if not result.get("block"):
        return None
    block = dict(result["block"])
    listed = (block.get("evidence") or {}).get("evidence") or []
    block["evidence"] = {"evidence": [_evidence(each) for each in listed]}
    return WholeBlock(_to_proto(BlockID, result["block_id"]), _to_proto(Block, block))


def _evidence(item: Any) -> Any:
    name, fields = _EVIDENCE[item["type"]]
    value = item["value"]
    return {name: {proto: value[key] for key, proto in fields.items() if key in value}}


def _read_validators(result: Any) -> list[VotingValidator]:
    return [
        VotingValidator(
            address=bytes.fromhex(each["address"]),
            pub_key=base64.b64decode(each["pub_key"]["value"]),
            power=int(each["voting_power"]),
            priority=int(each["proposer_priority"]),
        )
        for each in result["validators"]
    ]


def _read_hashes(result: Any) -> tuple[list[bytes], int]:
    return [bytes.fromhex(each["hash"]) for each in result["txs"]], int(result["total_count"])


def _read_about(result: Any) -> NodeAbout:
    info = dict(result["node_info"])
    info["default_node_id"] = info.pop("id")
    return NodeAbout(_to_proto(DefaultNodeInfo, info), bool(result["sync_info"]["catching_up"]))


def _to_proto(cls: Any, value: Any) -> Any:
    """Return CometBFT's JSON of a message as a protobuf message."""
    return ParseDict(_plain(cls.DESCRIPTOR, value), cls(), ignore_unknown_fields=True)


def _plain(descriptor: Descriptor, value: Any) -> Any:
    """Return CometBFT's JSON of a message in the form of protobuf's JSON: other names, and bytes in base64."""
    if not isinstance(value, dict):  # a time is a text in both forms
        return value
    plain: dict[str, Any] = {}
    for key, item in value.items():
        name = "part_set_header" if key == "parts" else key
        field = descriptor.fields_by_name.get(name)
        if field is not None and item is not None:
            many = field.label == FieldDescriptor.LABEL_REPEATED
            plain[name] = [_value(field, each) for each in item] if many else _value(field, item)
    return plain


def _value(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return _plain(field.message_type, value)
    if field.type == FieldDescriptor.TYPE_BYTES and field.name not in _BASE64:
        return base64.b64encode(bytes.fromhex(value)).decode()
    return value
