"""Parameters of the chain, set in genesis (protocol section 9): one record per component, under its name."""

from collections.abc import Callable, Mapping
from dataclasses import field, make_dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

from domain.codec import to_plain
from domain.disputes.params import DisputesParams
from domain.legs.params import LegsParams
from domain.node.queries import ComponentParams, Parameter, ParamsResponse
from domain.order_params import OrderParams
from domain.plain import read
from domain.proof.params import ProofParams
from domain.readable import Readable
from domain.vocabulary import COMPONENTS

P = TypeVar("P")
T = TypeVar("T")

RECORDS: Mapping[str, type[Any]] = MappingProxyType(
    {words.name: words.params for words in COMPONENTS if words.params is not None}
)
"""The class of each component's parameters, by the component's name."""
_FIELDS: Mapping[str, frozenset[str]] = MappingProxyType(
    {name: frozenset(to_plain(cls())) for name, cls in RECORDS.items()}
)
_NAMES: Mapping[type[Any], str] = MappingProxyType({cls: name for name, cls in RECORDS.items()})


def _with_records(records: Mapping[str, type[Any]]) -> Callable[[type[P]], type[P]]:
    """Return a decorator that adds one field per record to a class. A field has the name of its record's component."""

    def extend(base: type[P]) -> type[P]:
        extended: type[P] = make_dataclass(
            base.__name__,
            [(name, cls, field(default_factory=cls)) for name, cls in records.items()],
            bases=(base,),
            namespace={"__module__": __name__, "__doc__": base.__doc__},
            frozen=True,
            slots=True,
        )
        return extended

    return extend


@_with_records(RECORDS)
class Params(Readable):
    """The parameters of all components: one record per component, with the defaults of a public network.

    Example::

        params = network.quote("my-job").params
        print(params.of(assay.ProofParams).window_max, assay.Params().of(assay.ProofParams).window_max)
    """

    __slots__ = ()

    def of(self, cls: type[T]) -> T:
        """Return the component's record of parameters whose class is ``cls``."""
        record: T = getattr(self, _NAMES[cls])
        return record

    def replace(self, **values: int) -> "Params":
        """Return these parameters with some values replaced.

        A parameter is named without its component.

        Raises TypeError for a name that no component has, or that several components have.
        """
        changes: dict[str, dict[str, int]] = {}
        for name, value in values.items():
            owners = [owner for owner, names in _FIELDS.items() if name in names]
            if len(owners) != 1:
                raise TypeError(f"{len(owners)} components have a parameter {name}")
            changes.setdefault(owners[0], {})[name] = value
        whole: Any = self
        changed: Params = replace(
            whole,
            **{name: replace(getattr(self, name), **change) for name, change in changes.items()},
        )
        return changed

    def for_founders(self, count: int) -> "Params":
        """Return these parameters for a chain with ``count`` validators: ``auditors`` is at most ``count`` - 1.

        No validator audits its own rounds, so at most ``count`` - 1 validators can audit a round.
        """
        return self.replace(auditors=min(self.of(ProofParams).auditors, count - 1))

    def for_order(self) -> OrderParams:
        """Return the parameters that an order keeps for its whole life."""
        legs = self.of(LegsParams)
        proof = self.of(ProofParams)
        return OrderParams(
            accept_base=legs.accept_base,
            accept_rate=legs.accept_rate,
            progress_base=legs.progress_base,
            round_window=proof.round_window,
            max_attempts=legs.max_attempts,
            auditors=proof.auditors,
            audit_places_max=proof.audit_places_max,
            duty_segments=proof.duty_segments,
            job_bond_bps=legs.job_bond_bps,
            decline_fee_bps=legs.decline_fee_bps,
            protocol_bps=proof.protocol_bps,
            audit_bps=proof.audit_bps,
            lot_wait=proof.lot_wait,
            accept_max=legs.accept_max,
            payload_fee=legs.payload_fee,
            audit_segments=proof.audit_segments,
            eligible_bps=proof.eligible_bps,
            window_max=proof.window_max,
            answer_fee=proof.answer_fee,
            rounds_ahead=legs.rounds_ahead,
            handover_every=proof.handover_every,
            newcomer_slots=legs.newcomer_slots,
            stage_base=proof.stage_base,
            audit_price_min=proof.audit_price_min,
            seat_cut_max_bps=proof.seat_cut_max_bps,
            decline_stake_bps=legs.decline_stake_bps,
            slash_bps=proof.slash_bps,
            show_wait=proof.show_wait,
            stand_wait=proof.stand_wait,
            stand_segments=proof.stand_segments,
            appeal_wait=proof.appeal_wait,
            include_wait=proof.include_wait,
            challenge_reward_bps=self.of(DisputesParams).challenge_reward_bps,
            audit_rate_min=proof.audit_rate_min,
            challenge_wait_min=proof.challenge_wait_min,
            attested_rate_min=proof.attested_rate_min,
        )


def make_params(records: Mapping[str, Any]) -> Params:
    """Return the parameters made from ``records``, by component name. A component without a record has its defaults."""
    cls: Any = Params
    params: Params = cls(**records)
    return params


def local_params() -> Params:
    """Return the parameters of a local network."""
    return make_params({words.name: words.local_params for words in COMPONENTS if words.local_params is not None})


def params_response(params: Params) -> ParamsResponse:
    """Return parameters in the form of the answer to a query."""
    return ParamsResponse(
        tuple(
            ComponentParams(name, tuple(Parameter(*item) for item in values.items()))
            for name, values in to_plain(params).items()
        )
    )


def read_params(response: ParamsResponse) -> Params:
    """Return the parameters in an answer to a query. Leave out components that this software does not have.

    Raises Refusal for a parameter that is missing, unknown, or out of its bounds.
    """
    values = {
        part.component: {value.name: value.value for value in part.parameters}
        for part in response.components
        if part.component in RECORDS
    }
    return read(Params, values, "params")
