"""The paths of ABCI queries that are not gRPC methods: provable reads of the state, the version, and simulation."""

from typing import Any

from cosmpy.protos.cosmos.base.abci.v1beta1.abci_pb2 import SimulationResponse
from cosmpy.protos.tendermint.abci.types_pb2 import ResponseQuery
from cosmpy.protos.tendermint.crypto.proof_pb2 import ProofOp, ProofOps
from google.protobuf.json_format import MessageToJson

from chain.app.interfaces import SOFTWARE_VERSION, QueryPort
from chain.app.services.simulation import simulate
from chain.app.smt import PROOF_TYPE, prove
from domain.errors import INVALID_REQUEST, Refusal

STORE_PATH = "/store/assay/key"
VERSION_PATH = "/app/version"
SIMULATE_PATH = "/app/simulate"
PATHS = (STORE_PATH, VERSION_PATH, SIMULATE_PATH)


def answer_path(app: QueryPort, path: str, data: bytes, height: int, with_proof: bool) -> Any | None:
    """Return the ``ResponseQuery`` of a path, or None for an unknown path."""
    if path == STORE_PATH:
        return _state_key(app, data, height, with_proof)
    if with_proof:
        raise Refusal(INVALID_REQUEST, "prove", f"is not possible for {path[:128]}", f"use the path {STORE_PATH}")
    # CosmJS reads height 0 as "no height"; before block 1 the answers are those of genesis.
    newest = max(app.view().head.height, 1)
    if path == VERSION_PATH:
        return ResponseQuery(value=SOFTWARE_VERSION.encode(), height=newest)
    if path == SIMULATE_PATH:
        return ResponseQuery(value=_simulation(app, data), height=newest)
    return None


def _state_key(app: QueryPort, key: bytes, height: int, with_proof: bool) -> Any:
    """Return the answer with the value of a state key, and its proof if ``with_proof``.

    The proof leads to the app hash in the header of the next height.
    """
    state = app.committed(height)
    if not key or not state.head.block.height:
        raise Refusal(
            INVALID_REQUEST,
            "data",
            "is empty, or there is no block yet",
            "send the key of a state record after block 1",
        )
    answer = ResponseQuery(key=key, value=state.get(key) or b"", height=state.head.block.height)
    if with_proof:
        proof = prove(state.page, state.get, key).SerializeToString()
        op = ProofOp(type=PROOF_TYPE, key=key, data=proof)
        answer.proof_ops.CopyFrom(ProofOps(ops=[op]))
    return answer


def _simulation(app: QueryPort, raw: bytes) -> bytes:
    """Return the result that a transaction would have now, as the JSON of a ``SimulationResponse``."""
    message = SimulationResponse(**simulate(app, raw))
    return MessageToJson(message, preserving_proto_field_name=True, indent=None).encode()
