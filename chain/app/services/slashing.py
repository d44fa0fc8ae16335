"""``cosmos.slashing``: signing infos and parameters. Times are those of block headers."""

from collections.abc import Iterator
from typing import Any

from cosmpy.protos.cosmos.slashing.v1beta1 import query_pb2 as query
from cosmpy.protos.cosmos.slashing.v1beta1 import slashing_pb2 as proto
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from chain.app.services.method import Call, methods
from chain.app.services.pages import page_of_keys
from chain.app.services.times import header_time
from chain.state_machine.context import HEAD, PARAMS
from chain.state_machine.slashing.tables import MISSED_COUNTS, SIGNING_INFOS
from domain.errors import INVALID_REQUEST, NOT_FOUND, Refusal
from domain.slashing.params import SlashingParams
from domain.slashing.records import FOREVER, SigningInfo
from wire.address import ADDRESS_BYTES, cons_address_bytes, cons_address_text


def _signing_info(request: Any, call: Call) -> Any:
    address = cons_address_bytes(request.cons_address, "cons_address")
    info = SIGNING_INFOS.get(call.store, address)
    if info is None:
        reason = f"SigningInfo not found for validator {request.cons_address}"
        raise Refusal(NOT_FOUND, "cons_address", reason, "use the consensus address of a validator that was bonded")
    return query.QuerySigningInfoResponse(val_signing_info=_info_proto(info, call))


def _signing_infos(request: Any, call: Call) -> Any:
    if len(request.pagination.key) not in (0, ADDRESS_BYTES):
        raise Refusal(INVALID_REQUEST, "pagination.key", "is not a key of this list", "send next_key of the last page")

    def rows(after: bytes) -> Iterator[SigningInfo]:
        for (address,) in SIGNING_INFOS.keys(call.store, after=(after,) if after else ()):
            yield SIGNING_INFOS.must(call.store, address)

    page, pagination = page_of_keys(rows, lambda info: info.cons_address, request.pagination)
    return query.QuerySigningInfosResponse(info=[_info_proto(one, call) for one in page], pagination=pagination)


def _info_proto(info: SigningInfo, call: Call) -> Any:
    height = HEAD.must(call.store).height
    until = Timestamp()  # 1970 if it was never jailed, as in the SDK
    if info.jailed_until == FOREVER:
        until = Timestamp(seconds=FOREVER)
    elif info.jailed_until:
        until = header_time(info.jailed_until, call)
    return proto.ValidatorSigningInfo(
        address=cons_address_text(info.cons_address),
        start_height=info.start_height,
        index_offset=max(0, height - info.start_height) if info.start_height else 0,
        jailed_until=until,
        tombstoned=info.tombstoned,
        missed_blocks_counter=MISSED_COUNTS.get(call.store, info.cons_address),
    )


def _params(_: Any, call: Call) -> Any:
    params = PARAMS.get(call.store).of(SlashingParams)
    return query.QueryParamsResponse(
        params=proto.Params(
            signed_blocks_window=params.signed_blocks_window,
            min_signed_per_window=_decimal(params.min_signed_per_window),
            downtime_jail_duration=Duration(seconds=params.downtime_jail_duration),
            slash_fraction_double_sign=_decimal(params.slash_fraction_double_sign),
            slash_fraction_downtime=_decimal(params.slash_fraction_downtime),
        )
    )


def _decimal(rate: int) -> bytes:
    """Return a rate as the SDK packs a decimal number into bytes: the digits of its units of 10^-18."""
    return str(rate).encode()


METHODS = methods(
    query.DESCRIPTOR.services_by_name["Query"],
    {
        "Params": _params,
        "SigningInfo": _signing_info,
        "SigningInfos": _signing_infos,
    },
)
