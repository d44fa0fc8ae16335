"""``cosmos.authz``: who may send messages for whom. Authorizations that have expired are not listed."""

from collections.abc import Iterator
from typing import Any

from cosmpy.protos.cosmos.authz.v1beta1 import authz_pb2 as proto
from cosmpy.protos.cosmos.authz.v1beta1 import query_pb2 as query
from cosmpy.protos.cosmos.bank.v1beta1.authz_pb2 import SendAuthorization as SendProto
from cosmpy.protos.cosmos.base.v1beta1.coin_pb2 import Coin
from google.protobuf.any_pb2 import Any as AnyProto
from google.protobuf.timestamp_pb2 import Timestamp

from chain.app.services.method import Call, methods
from chain.app.services.pages import page_of_keys
from chain.state_machine.authz.grants import is_expired
from chain.state_machine.authz.tables import AUTHORIZATIONS, AUTHORIZATIONS_BY
from chain.state_machine.context import HEAD, NS
from domain.authz.messages import GenericAuthorization, SendAuthorization
from domain.authz.records import AuthorizationGrant
from domain.errors import INVALID_REQUEST, NOT_FOUND, Refusal
from domain.genesis import DENOM
from wire.address import check_address


def _grants(request: Any, call: Call) -> Any:
    check_address(request.granter, "granter")
    check_address(request.grantee, "grantee")
    if request.msg_type_url:
        grant = AUTHORIZATIONS.get(call.store, request.grantee, request.granter, request.msg_type_url[:128])
        if grant is None or is_expired(grant, _now(call)):
            reason = f"authorization not found for {request.msg_type_url[:128]} type"
            raise Refusal(NOT_FOUND, "authorization", reason, "leave msg_type_url out to list all")
        return query.QueryGrantsResponse(grants=[_grant_proto(grant)])

    def rows(after: bytes) -> Iterator[AuthorizationGrant]:
        pair = (request.grantee, request.granter)
        yield from _of_grantee(call, pair, (*pair, after) if after else ())

    page, pagination = page_of_keys(rows, lambda grant: grant.url.encode(), request.pagination)
    return query.QueryGrantsResponse(grants=map(_grant_proto, page), pagination=pagination)


def _granter_grants(request: Any, call: Call) -> Any:
    granter, now = request.granter, _now(call)
    check_address(granter, "granter")

    def rows(after: bytes) -> Iterator[AuthorizationGrant]:
        start = (granter, *_parts(after)) if after else ()
        for _, grantee, url in AUTHORIZATIONS_BY.keys(call.store, granter, after=start):
            grant = AUTHORIZATIONS.must(call.store, grantee.decode(), granter, url.decode())
            if not is_expired(grant, now):
                yield grant

    page, pagination = page_of_keys(rows, lambda grant: _key(grant.grantee, grant.url), request.pagination)
    return query.QueryGranterGrantsResponse(grants=map(_authorization_proto, page), pagination=pagination)


def _grantee_grants(request: Any, call: Call) -> Any:
    grantee = request.grantee
    check_address(grantee, "grantee")

    def rows(after: bytes) -> Iterator[AuthorizationGrant]:
        yield from _of_grantee(call, (grantee,), (grantee, *_parts(after)) if after else ())

    page, pagination = page_of_keys(rows, lambda grant: _key(grant.granter, grant.url), request.pagination)
    return query.QueryGranteeGrantsResponse(grants=map(_authorization_proto, page), pagination=pagination)


def _of_grantee(call: Call, parts: tuple[str, ...], start: tuple[Any, ...]) -> Iterator[AuthorizationGrant]:
    """Yield the authorizations whose keys begin with ``parts`` and come after ``start``."""
    now = _now(call)
    for key in AUTHORIZATIONS.keys(call.store, *parts, after=start):
        grant = AUTHORIZATIONS.must(call.store, *(part.decode() for part in key))
        if not is_expired(grant, now):
            yield grant


def _key(address: str, url: str) -> bytes:
    return f"{address} {url}".encode()


def _parts(key: bytes) -> tuple[bytes, bytes]:
    """Return the address and the type of message in the key of a page."""
    address, space, url = key.partition(b" ")
    if not space or max(len(address), len(url)) > 128:
        raise Refusal(INVALID_REQUEST, "pagination.key", "is not a key of this list", "send next_key of the last page")
    return address, url


def _now(call: Call) -> int:
    return HEAD.must(call.store).time_ns


# --- the forms of Cosmos -------------------------------------------------------------------------


def _grant_proto(grant: AuthorizationGrant) -> Any:
    return proto.Grant(authorization=_allowed(grant), expiration=_expiration(grant))


def _authorization_proto(grant: AuthorizationGrant) -> Any:
    return proto.GrantAuthorization(
        granter=grant.granter,
        grantee=grant.grantee,
        authorization=_allowed(grant),
        expiration=_expiration(grant),
    )


def _allowed(grant: AuthorizationGrant) -> Any:
    if grant.spend_limit is None:
        generic = proto.GenericAuthorization(msg=grant.url)
        return AnyProto(type_url=GenericAuthorization.URL, value=generic.SerializeToString())
    limit = [Coin(denom=DENOM, amount=str(grant.spend_limit))]
    send = SendProto(spend_limit=limit, allow_list=grant.allow_list)
    return AnyProto(type_url=SendAuthorization.URL, value=send.SerializeToString())


def _expiration(grant: AuthorizationGrant) -> Any:
    if grant.expires_ns is None:
        return None
    seconds, nanos = divmod(grant.expires_ns, NS)
    return Timestamp(seconds=seconds, nanos=nanos)


METHODS = methods(
    query.DESCRIPTOR.services_by_name["Query"],
    {"Grants": _grants, "GranterGrants": _granter_grants, "GranteeGrants": _grantee_grants},
)
