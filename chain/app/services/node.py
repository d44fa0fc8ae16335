"""``cosmos.base.tendermint.v1beta1.Service`` and ``cosmos.consensus.v1.Query``: blocks and the
node.
"""

from typing import Any

from cosmpy.protos.cosmos.base.tendermint.v1beta1 import query_pb2 as base
from cosmpy.protos.cosmos.base.tendermint.v1beta1.types_pb2 import Block as SdkBlock
from cosmpy.protos.cosmos.base.tendermint.v1beta1.types_pb2 import Header as SdkHeader
from cosmpy.protos.cosmos.consensus.v1 import query_pb2 as consensus
from cosmpy.protos.tendermint.p2p.types_pb2 import DefaultNodeInfo
from cosmpy.protos.tendermint.types.block_pb2 import Block
from cosmpy.protos.tendermint.types.params_pb2 import (
    BlockParams,
    ConsensusParams,
    ValidatorParams,
)
from cosmpy.protos.tendermint.types.types_pb2 import BlockID, Header
from google.protobuf.timestamp_pb2 import Timestamp

from chain.app.interfaces import SOFTWARE, SOFTWARE_VERSION, CommittedBlock, QueryPort
from chain.app.services.call import Handler, typed
from domain.errors import NOT_FOUND, Refusal
from tools.setup.cometbft import VERSION as COMETBFT_VERSION

_COSMOS_SDK = "0.50.0"  # whose services these are; clients parse it as a version


def handlers(app: QueryPort) -> dict[str, Handler]:
    """Return path -> handler."""
    service = "/cosmos.base.tendermint.v1beta1.Service/"
    return {
        service + "GetLatestBlock": typed(base.GetLatestBlockRequest, lambda _: _latest_block(app)),
        service + "GetBlockByHeight": typed(
            base.GetBlockByHeightRequest, lambda request: _block_at(app, request.height)
        ),
        service + "GetNodeInfo": typed(base.GetNodeInfoRequest, lambda _: _node_info(app)),
        service + "GetSyncing": typed(
            base.GetSyncingRequest, lambda _: base.GetSyncingResponse(syncing=False)
        ),
        "/cosmos.consensus.v1.Query/Params": typed(
            consensus.QueryParamsRequest, lambda _: _consensus_params()
        ),
    }


def _latest_block(app: QueryPort) -> Any:
    return base.GetLatestBlockResponse(**_block(app, app.view().head))


def _block_at(app: QueryPort, height: int) -> Any:
    found = app.block(height) if height > 0 else None
    if found is None:
        raise Refusal(NOT_FOUND, "height", f"block {height} not found")
    return base.GetBlockByHeightResponse(**_block(app, found))


def _block(app: QueryPort, info: CommittedBlock) -> dict[str, Any]:
    """Return what the application knows of a block; the whole block is with CometBFT's RPC."""
    seconds, nanos = divmod(info.time_ns, 10**9)
    time = Timestamp(seconds=seconds, nanos=nanos)
    header = {
        "chain_id": app.chain_id,
        "height": info.height,
        "time": time,
    }
    return {
        "block_id": BlockID(hash=info.hash),
        "block": Block(header=Header(proposer_address=info.proposer, **header)),
        "sdk_block": SdkBlock(header=SdkHeader(**header)),
    }


def _node_info(app: QueryPort) -> Any:
    return base.GetNodeInfoResponse(
        default_node_info=DefaultNodeInfo(network=app.chain_id, version=COMETBFT_VERSION),
        application_version=base.VersionInfo(
            name=SOFTWARE,
            app_name=SOFTWARE,
            version=SOFTWARE_VERSION,
            cosmos_sdk_version=_COSMOS_SDK,
        ),
    )


def _consensus_params() -> Any:
    # Gas is limited per transaction, not per block: -1 is "no limit" to clients.
    return consensus.QueryParamsResponse(
        params=ConsensusParams(
            block=BlockParams(max_bytes=-1, max_gas=-1),
            validator=ValidatorParams(pub_key_types=["ed25519"]),
        )
    )
