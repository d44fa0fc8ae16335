"""The metrics of a provider's daemon: what became of shares, and how long they took at each stage."""

from functools import partial
from math import isnan
from pathlib import Path
from threading import Event

from compute_provider.daemon import Daemon
from compute_provider.decide import actions as do
from compute_provider.decide import receive
from compute_provider.decide.duties import decide
from compute_provider.decide.receive import Change
from compute_provider.decide.records import Shares, ShareWork, Stage
from compute_provider.decide.view import Look, ValidatorView
from compute_provider.metrics import METRICS, ProviderCounts
from host.metrics import Meters
from tests.support.scraped import values
from tests.unit.compute_provider.support import CHAIN, FolderChain, config, task

ONE = task()
KEY = ONE.key
LISTED, UNLISTED = Look(picture=ValidatorView((ONE,), ())), Look(picture=ValidatorView((), ()))
TRAINED = partial(receive.trained, key=KEY, update_root=b"\x01" * 32, local_out_root=b"\x02" * 32)
WAY: tuple[Change, ...] = (
    partial(receive.checked, key=KEY),
    partial(receive.bonded, key=KEY),
    partial(receive.fetched, key=KEY),
    partial(receive.progressed, key=KEY, step=3, steps=20, loss=0),
    partial(receive.progressed, key=KEY, step=20, steps=20, loss=0),
)


class Counted:
    """A daemon's shares, on a clock that goes on by a second with each outcome."""

    def __init__(self) -> None:
        self.meters, self.clock = Meters(METRICS), 0.0
        self.counts = ProviderCounts(self.meters, lambda: self.clock)
        self.shares = Shares()
        self.look()

    def look(self, look: Look = LISTED) -> dict[tuple[str, ...], float]:
        self._put(decide(self.shares, look)[0])
        return values(self.meters.text())

    def take(self, *changes: Change) -> dict[tuple[str, ...], float]:
        for change in changes:
            self.clock += 1
            self._put(change(self.shares))
            self.look()
        return values(self.meters.text())

    def _put(self, after: Shares) -> None:
        before, self.shares = self.shares, after
        self.counts.took(before, after)


def test_a_share_that_goes_its_way() -> None:
    found = Counted().take(
        *WAY,
        TRAINED,
        partial(receive.submitted, key=KEY, accepted=True, text=""),
        partial(receive.committed, key=KEY),
        partial(receive.delivered, key=KEY, accepted=True, text=""),
        partial(receive.released, key=KEY),
    )
    assert found["assay_provider_shares_total", "trained"] == 1
    assert found["assay_provider_shares_total", "delivered"] == 1
    assert found["assay_provider_steps_total",] == 20
    assert found["assay_provider_stage_seconds_sum", "training"] == 3
    assert found["assay_provider_stage_seconds_sum", "delivered"] == 1
    outcomes = {name[1] for name in found if name[0] == "assay_provider_shares_total"}
    assert outcomes == {"trained", "delivered"}


def test_shares_that_end_otherwise() -> None:
    stopped = Counted().take(*WAY, partial(receive.trained, key=KEY))
    assert stopped["assay_provider_shares_total", "stopped"] == 1
    failed = Counted().take(*WAY, partial(receive.failed, key=KEY, text="no disk", again=False))
    assert failed["assay_provider_shares_total", "failed"] == 1
    counted = Counted()
    counted.take(*WAY)
    dropped = counted.look(UNLISTED)
    assert dropped["assay_provider_shares_total", "dropped"] == 1
    refused = Counted().take(*WAY, TRAINED, partial(receive.submitted, key=KEY, accepted=False, text="late"))
    assert refused["assay_provider_shares_total", "refused"] == 1


def test_a_share_of_before_the_start_has_no_seconds() -> None:
    """Nobody knows when its stage began."""
    counted = Counted()
    counted.shares = Shares((ShareWork(ONE, Stage.TRAINING),))
    counted.counts = ProviderCounts(counted.meters, lambda: counted.clock)
    found = counted.take(partial(receive.trained, key=KEY))
    assert ("assay_provider_stage_seconds_count", "training") not in found


def test_coins_and_bond_are_those_that_the_chain_was_seen_to_have(tmp_path: Path) -> None:
    chain, stop = FolderChain(tmp_path), Event()
    daemon = Daemon(config(tmp_path), CHAIN, chain, chain, stop=stop)
    stop.set()
    assert isnan(values(daemon._meters.text())["assay_provider_balance_uassay",])
    daemon._performer.perform(do.Watch())
    found = values(daemon._meters.text())
    daemon.run()
    assert found["assay_provider_balance_uassay",] == 10**15
    assert found["assay_provider_bond_uassay",] == 0
