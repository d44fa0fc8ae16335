"""``cosmos.feegrant``: who pays fees for whom. Fee grants that have expired are not listed."""

from collections.abc import Iterator
from typing import Any

from cosmpy.protos.cosmos.base.v1beta1.coin_pb2 import Coin
from cosmpy.protos.cosmos.feegrant.v1beta1 import feegrant_pb2 as proto
from cosmpy.protos.cosmos.feegrant.v1beta1 import query_pb2 as query
from google.protobuf.any_pb2 import Any as AnyProto
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from chain.app.services.method import Call, methods
from chain.app.services.pages import page_of_keys
from chain.state_machine.context import HEAD, NS
from chain.state_machine.feegrant.grants import is_expired
from chain.state_machine.feegrant.tables import FEE_GRANTS, FEE_GRANTS_BY
from domain.errors import NOT_FOUND, Refusal
from domain.feegrant.messages import AllowedMsgAllowance, BasicAllowance, PeriodicAllowance
from domain.feegrant.records import FeeGrant
from domain.genesis import DENOM
from wire.address import check_address


def _allowance(request: Any, call: Call) -> Any:
    check_address(request.granter, "granter")
    check_address(request.grantee, "grantee")
    grant = FEE_GRANTS.get(call.store, request.grantee, request.granter)
    if grant is None or is_expired(grant, _now(call)):
        reason = f"fee-grant of {request.granter} to {request.grantee} not found"
        raise Refusal(NOT_FOUND, "fee-grant", reason, "list a granter's with AllowancesByGranter")
    return query.QueryAllowanceResponse(allowance=_grant_proto(grant))


def _allowances(request: Any, call: Call) -> Any:
    grantee, now = request.grantee, _now(call)
    check_address(grantee, "grantee")

    def rows(after: bytes) -> Iterator[FeeGrant]:
        for _, granter in FEE_GRANTS.keys(call.store, grantee, after=(grantee, after) if after else ()):
            grant = FEE_GRANTS.must(call.store, grantee, granter.decode())
            if not is_expired(grant, now):
                yield grant

    page, pagination = page_of_keys(rows, lambda grant: grant.granter.encode(), request.pagination)
    return query.QueryAllowancesResponse(allowances=map(_grant_proto, page), pagination=pagination)


def _allowances_by_granter(request: Any, call: Call) -> Any:
    granter, now = request.granter, _now(call)
    check_address(granter, "granter")

    def rows(after: bytes) -> Iterator[FeeGrant]:
        for _, grantee in FEE_GRANTS_BY.keys(call.store, granter, after=(granter, after) if after else ()):
            grant = FEE_GRANTS.must(call.store, grantee.decode(), granter)
            if not is_expired(grant, now):
                yield grant

    page, pagination = page_of_keys(rows, lambda grant: grant.grantee.encode(), request.pagination)
    return query.QueryAllowancesByGranterResponse(allowances=map(_grant_proto, page), pagination=pagination)


def _now(call: Call) -> int:
    return HEAD.must(call.store).time_ns


# --- the forms of Cosmos -------------------------------------------------------------------------


def _grant_proto(grant: FeeGrant) -> Any:
    return proto.Grant(granter=grant.granter, grantee=grant.grantee, allowance=_allowance_proto(grant))


def _allowance_proto(grant: FeeGrant) -> Any:
    """Return an allowance as the granter wrote it, with what is left now."""
    expires = None if grant.expires_ns is None else _timestamp(grant.expires_ns)
    limit = [] if grant.spend_limit is None else [_coin(grant.spend_limit)]
    basic = proto.BasicAllowance(spend_limit=limit, expiration=expires)
    packed = _pack(BasicAllowance.URL, basic)
    if grant.period is not None:
        seconds, nanos = divmod(grant.period.length_ns, NS)
        periodic = proto.PeriodicAllowance(
            basic=basic,
            period=Duration(seconds=seconds, nanos=nanos),
            period_spend_limit=[_coin(grant.period.limit)],
            period_can_spend=[_coin(grant.period.left)] if grant.period.left else [],
            period_reset=_timestamp(grant.period.resets_ns),
        )
        packed = _pack(PeriodicAllowance.URL, periodic)
    if grant.allowed:
        allowed = proto.AllowedMsgAllowance(allowance=packed, allowed_messages=grant.allowed)
        packed = _pack(AllowedMsgAllowance.URL, allowed)
    return packed


def _coin(amount: int) -> Any:
    return Coin(denom=DENOM, amount=str(amount))


def _timestamp(time_ns: int) -> Any:
    seconds, nanos = divmod(time_ns, NS)
    return Timestamp(seconds=seconds, nanos=nanos)


def _pack(url: str, message: Any) -> Any:
    return AnyProto(type_url=url, value=message.SerializeToString())


METHODS = methods(
    query.DESCRIPTOR.services_by_name["Query"],
    {
        "Allowance": _allowance,
        "Allowances": _allowances,
        "AllowancesByGranter": _allowances_by_granter,
    },
)
