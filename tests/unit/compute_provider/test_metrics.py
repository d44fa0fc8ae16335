"""The metrics of a provider's daemon: what became of shares, and how long they took at each stage."""

from math import isnan
from pathlib import Path
from threading import Event

from compute_provider.daemon import Daemon
from compute_provider.decide import duties, shares
from compute_provider.decide.shares import State, step
from compute_provider.metrics import METRICS, Counts
from host.metrics import Meters
from tests.support.scraped import values
from tests.unit.compute_provider.support import CHAIN, FolderChain, config, task

ONE = task()
KEY = ONE.key
WAY = (
    shares.Polled((ONE,), ()),
    shares.Checked(KEY),
    shares.Bonded(KEY),
    shares.Fetched(KEY),
    shares.Progressed(KEY, 3, 20, 0),
    shares.Progressed(KEY, 20, 20, 0),
)


class Counted:
    """A daemon's shares, on a clock that goes on by a second with each event."""

    def __init__(self) -> None:
        self.meters, self.state, self.clock = Meters(METRICS), State(), 0.0
        self.counts = Counts(self.meters, lambda: self.clock)

    def take(self, *events: shares.Event) -> dict[tuple[str, ...], float]:
        for event in events:
            self.clock += 1
            before, (self.state, _) = self.state, step(self.state, event)
            self.counts.took(event, before, self.state)
        return values(self.meters.text())


def test_a_share_that_goes_its_way() -> None:
    found = Counted().take(
        *WAY,
        shares.Trained(KEY, b"\x01" * 32, b"\x02" * 32),
        shares.Submitted(KEY, True, ""),
        shares.Committed(KEY),
        shares.Delivered(KEY, True, ""),
        shares.Released(KEY),
    )
    assert found["assay_provider_shares_total", "trained"] == 1
    assert found["assay_provider_shares_total", "delivered"] == 1
    assert found["assay_provider_steps_total",] == 20
    assert found["assay_provider_stage_seconds_sum", "training"] == 3
    assert found["assay_provider_stage_seconds_sum", "delivered"] == 1
    outcomes = {name[1] for name in found if name[0] == "assay_provider_shares_total"}
    assert outcomes == {"trained", "delivered"}


def test_shares_that_end_otherwise() -> None:
    assert Counted().take(*WAY, shares.Trained(KEY))["assay_provider_shares_total", "stopped"] == 1
    failed = Counted().take(*WAY, shares.Failed(KEY, "no disk", again=False))
    assert failed["assay_provider_shares_total", "failed"] == 1
    dropped = Counted().take(*WAY, shares.Polled((), ()))
    assert dropped["assay_provider_shares_total", "dropped"] == 1
    trained = shares.Trained(KEY, b"\x01" * 32, b"\x02" * 32)
    refused = Counted().take(*WAY, trained, shares.Submitted(KEY, False, "late"))
    assert refused["assay_provider_shares_total", "refused"] == 1


def test_a_share_of_before_the_start_has_no_seconds() -> None:
    """Nobody knows when its stage began."""
    counted = Counted()
    for event in WAY:
        counted.state, _ = step(counted.state, event)
    found = counted.take(shares.Trained(KEY))
    assert ("assay_provider_stage_seconds_count", "training") not in found


def test_coins_and_bond_are_those_that_the_chain_was_seen_to_have(tmp_path: Path) -> None:
    chain, stop = FolderChain(tmp_path), Event()
    daemon = Daemon(config(tmp_path), CHAIN, chain, chain, stop=stop)
    stop.set()
    assert isnan(values(daemon._meters.text())["assay_provider_balance_uassay",])
    daemon._performer.perform(duties.Watch())
    found = values(daemon._meters.text())
    daemon.run()
    assert found["assay_provider_balance_uassay",] == 10**15
    assert found["assay_provider_bond_uassay",] == 0
