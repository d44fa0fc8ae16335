"""Disk space that a share needs before it is taken, and deposits of the bond that the owner wants."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock, Thread
from types import SimpleNamespace
from typing import Any, Self

import pytest

from chain.client.errors import TxRefused
from compute_provider.daemon import Daemon
from compute_provider.decide import actions as do
from compute_provider.decide import claims
from compute_provider.decide.records import Shares, ShareWork, Stage
from compute_provider.interfaces import Honest, ProviderError
from compute_provider.perform import Performer
from compute_provider.store import Store
from domain.amount import ASSAY
from domain.errors import INSUFFICIENT_FUNDS
from domain.ledger.messages import MsgDepositBond
from domain.ledger.records import BondKind, BondRow, Payment
from domain.node.queries import StatusResponse
from domain.proof.queries import OrderResponse
from pol.rules.delivery import largest_delivery
from pol.rules.tiers.exact import EXACT
from pol.work.records import Boundary
from tests.support.four_bytes import registered
from tests.unit.compute_provider import support as s

BOUNDARIES = 6  # of the tiny task


@pytest.fixture
def performer(tmp_path: Path) -> Iterator[Performer]:
    signer = SimpleNamespace(pub_key=s.VALIDATOR_KEY.pub_key)
    chain: Any = SimpleNamespace(
        order=lambda order_id: s.order(),
        account=lambda address: SimpleNamespace(account=signer, bond=SimpleNamespace(free=10**15), balance=0),
        status=lambda: SimpleNamespace(clock=s.CLOCK),
    )
    config, store = s.config(tmp_path), Store(tmp_path)
    made = Performer(config, s.CHAIN, chain, chain, store=store, behaviour=Honest(), shares=Shares, stop=Event())
    yield made
    made.close()
    made.blobs.close()
    store.close()


def problem(performer: Performer) -> str:
    """Return what speaks against the task, or an empty string."""
    (change,) = performer.perform(do.CheckTask(s.task())).changes
    (work,) = change(Shares((ShareWork(s.task(), Stage.CHECKING),))).works
    assert (work.stage is Stage.BONDING) is not bool(work.text)
    return work.text


def test_a_later_deadline_is_taken_if_the_validator_signed_it(performer: Performer) -> None:
    later = s.task(seconds_left=s.task().seconds_left + 60)
    (change,) = performer.perform(do.Renew(later)).changes
    (work,) = change(Shares((ShareWork(s.task(), Stage.TRAINING),))).works
    assert (work.task.deadline, work.task.signature) == (later.deadline, later.signature)
    assert later.deadline > s.task().deadline
    with pytest.raises(ProviderError, match="signature"):
        performer.perform(do.Renew(replace(later, deadline=later.deadline + 1)))


@pytest.mark.parametrize("tier", ["exact", "hardware"])
def test_the_arithmetic_is_that_of_the_tier_on_the_chain(performer: Performer, tier: str) -> None:
    """A task of the validator says nothing of it, so no validator can let a provider train in another arithmetic."""
    performer._chain.order = lambda order_id: s.with_leg(s.order(), tier=tier)  # type: ignore[method-assign]
    with registered(replace(EXACT, name="hardware", hardware=True)):
        (change,) = performer.perform(do.CheckTask(s.task())).changes
    (work,) = change(Shares((ShareWork(s.task(), Stage.CHECKING),))).works
    assert work.stage is Stage.BONDING
    assert performer.work_order(work).hardware is work.hardware is (tier == "hardware")


def test_a_task_of_an_order_that_this_machine_cannot_train_is_not_taken(performer: Performer) -> None:
    performer.unable[s.ORDER_ID] = "this machine cannot train the order: it has no torch"
    assert "no torch" in problem(performer)
    performer.unable.clear()
    assert problem(performer) == ""


def needed() -> int:
    task = s.task()
    states = task.global_in.blob.size + task.local_in.blob.size
    delivery = largest_delivery(s.terms(), task.every)
    return s.terms().payload_bytes + s.terms().data_bytes + (BOUNDARIES + 1) * states + delivery


@pytest.mark.parametrize("lacking", [0, 1])
def test_a_trace_that_the_disk_has_no_room_for_is_not_begun(
    performer: Performer, monkeypatch: pytest.MonkeyPatch, lacking: int
) -> None:
    free = SimpleNamespace(free=needed() - lacking)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: free)
    assert ("the share's trace needs" in problem(performer)) is bool(lacking)


def test_what_is_there_already_needs_no_room(
    performer: Performer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=needed() - 100))
    (performer._store.folder(s.task().key) / "0.global").write_bytes(bytes(100))
    assert problem(performer) == ""


def test_what_the_owner_allows_is_the_bound(performer: Performer) -> None:
    performer._config = replace(performer._config, disk_bytes=needed() - 1)
    assert "the share's trace needs" in problem(performer)


def test_a_leg_that_pays_less_than_the_owner_wants_is_not_trained_for(performer: Performer) -> None:
    paid = claims.income(s.order(), s.order().legs[0])
    for least in (paid, paid + 1):
        performer._config = replace(performer._config, least_income=least)
        assert ("--least-income" in problem(performer)) is (least > paid)


def test_shares_that_are_not_paid_are_worth_no_more_than_the_owner_allows(performer: Performer) -> None:
    key, bond = s.task().key, claims.bond_of(s.task(), s.order())
    for most in (0, bond):
        performer._config = replace(performer._config, max_exposure=most)
        assert performer._ensure_bond(key, bond, s.order()) == ""
    performer._config = replace(performer._config, max_exposure=bond - 1)
    assert "--max-exposure" in performer._ensure_bond(key, bond, s.order())
    row = BondRow(BondKind.SHARE, performer._config.key.address, 1, 0, 1, 1, 7)
    order = replace(s.order(), escrow=replace(s.order().escrow, bonds=(row,)))
    performer._config = replace(performer._config, max_exposure=bond + 6)
    assert "--max-exposure" in performer._ensure_bond(key, bond, order)


def test_a_bond_is_seen_to_only_in_the_cluster(tmp_path: Path) -> None:
    folder, warnings = tmp_path / "chain", list[str]()
    folder.mkdir()
    chain = s.FolderChain(folder)
    config, store = replace(s.config(tmp_path / "home"), bond=5), Store(tmp_path / "home")
    made = Performer(
        config,
        s.CHAIN,
        chain,
        chain,
        store=store,
        behaviour=Honest(),
        shares=Shares,
        stop=Event(),
        warn=warnings.append,
    )
    made.perform(do.Glance())
    assert chain.sent() == [], "what is not in the cluster deposits nothing yet"
    (folder / "registered").touch()
    for _ in range(2):
        made.perform(do.Glance())
    assert (chain.sent(), warnings) == (["MsgDepositBond"], [])
    made.close()
    made.blobs.close()
    store.close()


class SlowChain:
    """A chain that answers what a provider has only once two threads have come as far as they get."""

    def __init__(self) -> None:
        self.both_came = Event()
        self.deposits: list[int] = []
        self._came = 0
        self._counting = Lock()

    def come(self) -> None:
        """Count a thread that asks, or that waits for the one that asks."""
        with self._counting:
            self._came += 1
            if self._came == 2:
                self.both_came.set()

    def account(self, address: str) -> SimpleNamespace:
        """Return the account as it was when it was asked for."""
        free = sum(self.deposits)
        self.come()
        assert self.both_came.wait(30)
        return SimpleNamespace(bond=SimpleNamespace(free=free), balance=10**9)

    def send(self, message: MsgDepositBond) -> None:
        """Take a deposit."""
        self.deposits.append(message.amount)


class TellingLock:
    """A lock that says when a thread has to wait for it."""

    def __init__(self, come: Callable[[], None]) -> None:
        self._lock, self._come = Lock(), come

    def __enter__(self) -> Self:
        if not self._lock.acquire(blocking=False):
            self._come()
            self._lock.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_bond_is_deposited_once_by_threads_that_join_and_look(tmp_path: Path) -> None:
    chain: Any = SlowChain()
    config, store = replace(s.config(tmp_path), bond=5_000), Store(tmp_path)
    performer: Any = Performer(
        config, s.CHAIN, chain, chain, store=store, behaviour=Honest(), shares=Shares, stop=Event()
    )
    performer._bond_lock = TellingLock(chain.come)
    threads = [Thread(target=performer._top_up) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert chain.deposits == [5_000]
    performer.close()
    performer.blobs.close()
    store.close()


class Bank:
    """A chain with one order that paid, and with an account whose balance a test sets. It takes deposits."""

    def __init__(self, paid: int, balance: int) -> None:
        self.paid, self.balance, self.deposits = paid, balance, list[int]()
        self.refuses = False

    def status(self) -> StatusResponse:
        """Return a chain that goes on."""
        return StatusResponse(s.CHAIN, 1, 0, 1_000, 1, b"", False, 1_000)

    def provider(self, address: str) -> None:
        """Return no record of a provider."""

    def order(self, order_id: bytes) -> OrderResponse:
        """Return the order with what it has paid."""
        return replace(s.order(), payments=(Payment(s.PROVIDER.address, "provider", self.paid, 0),))

    def account(self, address: str) -> SimpleNamespace:
        """Return the balance, and no free bond."""
        return SimpleNamespace(bond=SimpleNamespace(free=0), balance=self.balance)

    def send(self, message: MsgDepositBond) -> None:
        """Take a deposit, and the fee of one transaction."""
        if self.refuses:
            raise TxRefused(INSUFFICIENT_FUNDS, "too few coins")
        assert message.amount < self.balance
        self.balance -= message.amount + 1
        self.deposits.append(message.amount)


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Callable[[Bank, str], None]]:
    """A provider with a share on chain that reads its order. The second argument is what earnings are left as."""
    store = Store(tmp_path)
    store.put_boundary(s.task().key, Boundary(0, 0, bytes(32), bytes(32), bytes(32), ()))
    work = ShareWork(s.task(), Stage.SUBMITTED, update_root=bytes(32), local_out_root=bytes(32))

    def watch(bank: Any, earnings: str) -> None:
        config = replace(s.config(tmp_path), keep_earnings=earnings == "bond")
        made = Performer(
            config,
            s.CHAIN,
            bank,
            bank,
            store=store,
            behaviour=Honest(),
            shares=lambda: Shares((work,)),
            stop=Event(),
        )
        made.perform(do.Watch())
        made.close()
        made.blobs.close()

    yield watch
    store.close()


def test_earnings_stay_in_the_account_or_become_bond(watching: Callable[[Bank, str], None]) -> None:
    bank = Bank(paid=500, balance=10**9)
    watching(bank, "account")
    assert bank.deposits == []
    bank.paid = 1_200
    watching(bank, "bond")
    watching(bank, "bond")
    assert bank.deposits == [700]  # once, and only what came since


def test_earnings_that_the_account_lacks_become_bond_later(watching: Callable[[Bank, str], None]) -> None:
    """The coins may have left for the bond of a share. Those for fees stay, so that every duty can be sent."""
    bank = Bank(paid=500, balance=ASSAY + 200)
    watching(bank, "bond")
    assert bank.deposits == [200]
    watching(bank, "bond")
    assert bank.deposits == [200]
    bank.balance = 10**9
    watching(bank, "bond")
    watching(bank, "bond")
    assert bank.deposits == [200, 300]


def test_a_refused_deposit_stops_no_duty(watching: Callable[[Bank, str], None]) -> None:
    bank = Bank(paid=500, balance=10**9)
    bank.refuses = True
    watching(bank, "bond")
    bank.refuses = False
    watching(bank, "bond")
    assert bank.deposits == [500]


@pytest.mark.parametrize("unable", [False, True])
def test_a_worker_that_cannot_train_an_order_speaks_for_all_its_shares(tmp_path: Path, unable: bool) -> None:
    folder = tmp_path / "chain"
    folder.mkdir()
    chain = s.FolderChain(folder)
    daemon = Daemon(s.config(tmp_path / "home"), s.CHAIN, chain, chain)
    daemon._on_worker(s.task().key, {"failed": "no torch", "again": False, **({"unable": True} if unable else {})})
    assert daemon._performer.unable == ({s.ORDER_ID: "no torch"} if unable else {})
    daemon._stop.set()
    daemon._performer.close()
    daemon._machines.close()
    daemon._lanes.close()
    daemon._performer.blobs.close()
    daemon._store.close()
