"""``cosmos.evidence``: the proofs for which validators were tombstoned. There is at most one for each."""

from hashlib import sha256
from typing import Any

from cosmpy.protos.cosmos.evidence.v1beta1 import evidence_pb2 as proto
from cosmpy.protos.cosmos.evidence.v1beta1 import query_pb2 as query
from google.protobuf.any_pb2 import Any as AnyProto
from google.protobuf.timestamp_pb2 import Timestamp

from chain.app.services.method import Call, methods
from chain.app.services.pages import page_of
from chain.state_machine.context import NS
from chain.state_machine.slashing.tables import EVIDENCE
from domain.errors import INVALID_REQUEST, NOT_FOUND, Refusal
from domain.slashing.records import Evidence
from wire.address import cons_address_text

_URL = "/cosmos.evidence.v1beta1.Equivocation"


def _one(request: Any, call: Call) -> Any:
    wanted = request.hash.lower() or request.evidence_hash.hex()
    if not wanted:
        raise Refusal(INVALID_REQUEST, "hash", "is empty", "send the hash of the evidence in hex")
    for evidence in EVIDENCE.iterate(call.store):
        packed = _packed(evidence)
        if sha256(packed.value).hexdigest() == wanted:
            return query.QueryEvidenceResponse(evidence=packed)
    raise Refusal(NOT_FOUND, "hash", f"evidence {wanted[:64]} not found", "use the hash of an evidence of this chain")


def _all(request: Any, call: Call) -> Any:
    page, pagination = page_of(EVIDENCE.scan(call.store), request.pagination)
    return query.QueryAllEvidenceResponse(evidence=list(map(_packed, page)), pagination=pagination)


def _packed(evidence: Evidence) -> Any:
    seconds, nanos = divmod(evidence.time_ns, NS)
    equivocation = proto.Equivocation(
        height=evidence.height,
        time=Timestamp(seconds=seconds, nanos=nanos),
        power=evidence.power,
        consensus_address=cons_address_text(evidence.cons_address),
    )
    return AnyProto(type_url=_URL, value=equivocation.SerializeToString())


METHODS = methods(query.DESCRIPTOR.services_by_name["Query"], {"Evidence": _one, "AllEvidence": _all})
