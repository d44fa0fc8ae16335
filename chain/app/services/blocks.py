"""``cosmos.base.tendermint``: blocks, validator sets, the node, and ABCI queries."""

from typing import Any

from cosmpy.protos.cosmos.base.tendermint.v1beta1 import query_pb2 as base
from cosmpy.protos.cosmos.base.tendermint.v1beta1.types_pb2 import Block as SdkBlock
from cosmpy.protos.cosmos.base.tendermint.v1beta1.types_pb2 import Header as SdkHeader
from cosmpy.protos.cosmos.crypto.ed25519.keys_pb2 import PubKey
from google.protobuf.any_pb2 import Any as AnyProto

from chain.app.interfaces import SOFTWARE, SOFTWARE_VERSION, WholeBlock
from chain.app.services.app_paths import PATHS, answer_path
from chain.app.services.method import Call, methods
from chain.app.services.pages import page_of
from domain.errors import NOT_FOUND, UNKNOWN_REQUEST, Refusal
from wire.address import cons_address_text

_COSMOS_SDK = "0.50.0"  # the version of these services; clients parse it


def find_block(height: int, call: Call) -> WholeBlock:
    """Return a committed block; raise a Refusal if the node does not have it."""
    block = None
    if height > 0 and call.app.block(height) is not None:
        block = call.blocks.block(height)
    if block is None:
        raise Refusal(NOT_FOUND, "height", f"block {height} not found")
    return block


def _latest_block(_: Any, call: Call) -> Any:
    height = call.state.head.height
    if not height:  # the state of genesis, before the first block
        return base.GetLatestBlockResponse(block={"header": {"chain_id": call.app.chain_id}})
    return base.GetLatestBlockResponse(**_fields(find_block(height, call)))


def _block_at(request: Any, call: Call) -> Any:
    return base.GetBlockByHeightResponse(**_fields(find_block(request.height, call)))


def _fields(block: WholeBlock) -> dict[str, Any]:
    """Return a block in both forms. In the newer one, the proposer is a text."""
    header = block.block.header
    sdk_header = SdkHeader(proposer_address=cons_address_text(header.proposer_address))
    for field in SdkHeader.DESCRIPTOR.fields:
        name = field.name
        if name == "proposer_address":
            continue
        if field.message_type is None:
            setattr(sdk_header, name, getattr(header, name))
        elif header.HasField(name):
            getattr(sdk_header, name).CopyFrom(getattr(header, name))
    parts = {name: getattr(block.block, name) for name in ("data", "evidence", "last_commit")}
    return {
        "block_id": block.id,
        "block": block.block,
        "sdk_block": SdkBlock(header=sdk_header, **parts),
    }


def _latest_set(request: Any, call: Call) -> Any:
    return base.GetLatestValidatorSetResponse(**_validators(call.state.head.height, request, call))


def _set_at(request: Any, call: Call) -> Any:
    height = request.height
    if height < 1 or call.app.block(height) is None:
        raise Refusal(NOT_FOUND, "height", f"block {height} not found")
    return base.GetValidatorSetByHeightResponse(**_validators(height, request, call))


def _validators(height: int, request: Any, call: Call) -> dict[str, Any]:
    page, pagination = page_of(call.blocks.validators(height), request.pagination)
    listed = [
        base.Validator(
            address=cons_address_text(each.address),
            pub_key=AnyProto(
                type_url="/cosmos.crypto.ed25519.PubKey", value=PubKey(key=each.pub_key).SerializeToString()
            ),
            voting_power=each.power,
            proposer_priority=each.priority,
        )
        for each in page
    ]
    return {"block_height": height, "validators": listed, "pagination": pagination}


def _node_info(_: Any, call: Call) -> Any:
    return base.GetNodeInfoResponse(
        default_node_info=call.blocks.about().node_info,
        application_version=base.VersionInfo(
            name=SOFTWARE,
            app_name=SOFTWARE,
            version=SOFTWARE_VERSION,
            cosmos_sdk_version=_COSMOS_SDK,
        ),
    )


def _syncing(_: Any, call: Call) -> Any:
    return base.GetSyncingResponse(syncing=call.blocks.about().is_syncing)


def _abci_query(request: Any, call: Call) -> Any:
    answer = answer_path(call.app, request.path, bytes(request.data), request.height, request.prove)
    if answer is None:
        remedy = f"use {' or '.join(PATHS)}; gRPC methods are called directly"
        raise Refusal(UNKNOWN_REQUEST, "path", f"{request.path[:128]} is unknown", remedy)
    # The messages of the two packages have the same fields.
    return base.ABCIQueryResponse.FromString(answer.SerializeToString())


METHODS = methods(
    base.DESCRIPTOR.services_by_name["Service"],
    {
        "GetLatestBlock": _latest_block,
        "GetBlockByHeight": _block_at,
        "GetLatestValidatorSet": _latest_set,
        "GetValidatorSetByHeight": _set_at,
        "GetNodeInfo": _node_info,
        "GetSyncing": _syncing,
        "ABCIQuery": _abci_query,
    },
)
