"""``cosmos.base.node``, ``consensus``, ``upgrade`` and ``params``: the node's settings and the chain's parameters."""

import json
from typing import Any

from cosmpy.protos.cosmos.base.node.v1beta1 import query_pb2 as node
from cosmpy.protos.cosmos.consensus.v1 import query_pb2 as consensus
from cosmpy.protos.cosmos.params.v1beta1 import query_pb2 as params
from cosmpy.protos.cosmos.params.v1beta1.params_pb2 import ParamChange
from cosmpy.protos.cosmos.upgrade.v1beta1 import query_pb2 as upgrade
from cosmpy.protos.cosmos.upgrade.v1beta1.upgrade_pb2 import ModuleVersion
from cosmpy.protos.tendermint.types.params_pb2 import (
    BlockParams,
    ConsensusParams,
    ValidatorParams,
)
from google.protobuf.timestamp_pb2 import Timestamp

from chain.app.evidence_rules import evidence_rules
from chain.app.services.method import Call, methods
from chain.state_machine.context import HEAD, PARAMS
from chain.state_machine.gas_price import get_gas_price
from domain.codec import to_plain
from domain.errors import NOT_FOUND, Refusal
from domain.limits import BLOCK_BYTES_MAX
from domain.node.params import NodeParams
from domain.params import RECORDS


def _config(_: Any, call: Call) -> Any:
    """Return the gas price that wallets have to pay in the next block, as an exact decimal number."""
    store = call.store
    whole, millionths = divmod(get_gas_price(store), 10**6)
    return node.ConfigResponse(minimum_gas_price=f"{whole}.{millionths:06}{HEAD.must(store).denom}")


def _status(_: Any, call: Call) -> Any:
    """Return the height of the state and its app hash. States of a few blocks are kept (``view``)."""
    head = call.state.head
    seconds, nanos = divmod(head.time_ns, 10**9)
    return node.StatusResponse(
        earliest_store_height=call.app.oldest_height,
        height=head.height,
        timestamp=Timestamp(seconds=seconds, nanos=nanos),
        app_hash=head.app_hash,
    )


def _consensus_params(_: Any, call: Call) -> Any:
    current = PARAMS.get(call.store)
    return consensus.QueryParamsResponse(
        params=ConsensusParams(
            block=BlockParams(max_bytes=BLOCK_BYTES_MAX, max_gas=current.of(NodeParams).block_gas),
            evidence=evidence_rules(current).proto(),
            validator=ValidatorParams(pub_key_types=["ed25519"]),
        )
    )


def _param(request: Any, call: Call) -> Any:
    """Return one parameter: the subspace is a component, and the value a JSON string, as for numbers of the SDK."""
    values = to_plain(PARAMS.get(call.store)).get(request.subspace)
    if values is None:
        remedy = f"use one of {', '.join(RECORDS)}"
        raise Refusal(NOT_FOUND, "subspace", f"{request.subspace[:64]!r} not found", remedy)
    if request.key not in values:
        remedy = f"use one of {', '.join(values)}"
        raise Refusal(NOT_FOUND, "key", f"{request.key[:64]!r} not found", remedy)
    value = json.dumps(str(values[request.key]))
    return params.QueryParamsResponse(param=ParamChange(subspace=request.subspace, key=request.key, value=value))


def _subspaces(_: Any, call: Call) -> Any:
    plain = to_plain(PARAMS.get(call.store))
    listed = [params.Subspace(subspace=name, keys=list(values)) for name, values in plain.items()]
    return params.QuerySubspacesResponse(subspaces=listed)


def _current_plan(_: Any, __: Call) -> Any:
    """Return an empty plan: the heights of rules are in the genesis file, and the SDK's plans do not exist here."""
    return upgrade.QueryCurrentPlanResponse()


def _module_versions(request: Any, call: Call) -> Any:
    """Return each component with the version of the rules in force."""
    store = call.store
    rules = call.app.rulebook.at(store, HEAD.must(store).height)
    names = [component.name for component in rules.components if request.module_name in ("", component.name)]
    if not names:
        raise Refusal(NOT_FOUND, "module_name", f"{request.module_name[:64]!r} not found", "leave it empty for all")
    versions = [ModuleVersion(name=name, version=rules.version) for name in names]
    return upgrade.QueryModuleVersionsResponse(module_versions=versions)


METHODS = (
    *methods(node.DESCRIPTOR.services_by_name["Service"], {"Config": _config, "Status": _status}),
    *methods(consensus.DESCRIPTOR.services_by_name["Query"], {"Params": _consensus_params}),
    *methods(params.DESCRIPTOR.services_by_name["Query"], {"Params": _param, "Subspaces": _subspaces}),
    *methods(
        upgrade.DESCRIPTOR.services_by_name["Query"],
        {"CurrentPlan": _current_plan, "ModuleVersions": _module_versions},
    ),
)
