"""Parameters of the chain, in genesis (protocol section 9); durations in seconds on the chain clock."""

from dataclasses import dataclass

from domain.records import OrderParams


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters with the defaults of a public network."""

    clock_step_max: int = 60
    lot_wait: int = 600
    accept_base: int = 600
    accept_rate: int = 1_000_000  # bytes/s
    progress_base: int = 3_600
    round_window: int = 3_600
    report_window: int = 3_600
    max_attempts: int = 3
    auditors: int = 2
    audit_places_max: int = 16
    segments_drawn: int = 4
    reference_speed: int = 1_000_000_000  # FLOP/s of exact work
    job_bond_bps: int = 1_000
    decline_fee_bps: int = 1_000  # of the job bond
    protocol_bps: int = 100
    audit_bps: int = 300
    bond_wait: int = 14 * 86_400
    min_gas_price_millionths: int = 1_000  # consensus minimum, millionths of uassay per gas unit
    matches_per_block: int = 256
    deadlines_per_block: int = 256

    def for_order(self) -> OrderParams:
        """Return the part that an order keeps for life."""
        return OrderParams(**{name: getattr(self, name) for name in OrderParams.__slots__})


def local_params() -> Params:
    """Return the parameters of a local network."""
    return Params(
        clock_step_max=2,
        lot_wait=20,
        accept_base=20,
        accept_rate=10_000_000,
        progress_base=30,
        round_window=10,
        report_window=10,
        audit_places_max=4,
        segments_drawn=2,
        reference_speed=200_000_000,
        bond_wait=60,
    )
