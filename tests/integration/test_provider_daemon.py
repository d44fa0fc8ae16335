"""The provider's process against a real server over TLS, with real training of a small job."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from errno import EAGAIN
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from compute_provider.daemon import Daemon
from compute_provider.decide.records import Shares, name_of
from compute_provider.interfaces import Behaviour, ProviderError
from compute_provider.store import Store, read_status
from compute_provider.work.trainer import SandboxedTrainer
from compute_provider.work.worker import WorkOrder
from domain.keys import ShareKey
from domain.market.records import OrderState
from domain.proof.queries import OrderResponse
from domain.proof.records import Share, ShareClaim, ShareState
from link import types as t
from link.delivery import has_root
from link.errors import ClusterError, ClusterErrorKind
from localnet import cheats
from pol.executor.backend import backend, computing
from pol.executor.names import Engine
from pol.rules.commitment import (
    boundary_root,
    compute_trace_root,
    share_commitment,
    share_sign_bytes,
)
from pol.rules.delivery import receipt_sign_bytes
from pol.state.canonical import decode_state, state_tree
from pol.work.probe import work_pieces
from tests.support.waiting import wait_until
from tests.unit.compute_provider import support as s
from tests.unit.link.support import Answers, Running, running
from validator.decide.traces import leaves_of
from validator.serve.prober import Prober
from validator.work.numerics import headers
from validator.work.unsealing import OpenedDelivery, unseal
from wire.keys import verify

WAIT = 60.0


@dataclass
class Validator(Answers):
    """A validator that gives one task and hands over what it gets."""

    tasks: tuple[t.TrainTask, ...] = ()
    openings: tuple[t.OpenTask, ...] = ()
    signed: "Queue[t.ShareSubmission]" = field(default_factory=Queue)
    commits: Callable[[t.ShareSubmission], None] = lambda _signed: None
    shares: "Queue[t.ShareDelivery]" = field(default_factory=Queue)
    opened: "Queue[t.OpeningSubmission]" = field(default_factory=Queue)
    polls: "Queue[t.PollRequest]" = field(default_factory=Queue)
    on_share: Callable[[], None] = lambda: None
    claims: dict[ShareKey, ShareClaim] = field(default_factory=dict)
    offers: dict[ShareKey, t.DeliveryOffer] = field(default_factory=dict)
    verdict: t.Verdict = field(default_factory=lambda: t.Verdict(True))

    def poll(self, caller: t.Caller, request: t.PollRequest) -> t.PollReply:
        self.polls.put(request)
        return t.PollReply(self.tasks, self.openings, 20)

    def submit_share(self, caller: t.Caller, request: t.ShareSubmission) -> t.Verdict:
        """Take a commitment, and put it on chain at once, if ``commits``."""
        self.on_share()
        self.claims[request.claim.key] = request.claim
        self.signed.put(request)
        if self.verdict.accepted:
            self.commits(request)
        return self.verdict

    def deliver_share(self, caller: t.Caller, request: t.DeliveryOffer) -> t.ReceiptReply:
        """Take a ciphertext, and sign the receipt for it."""
        if not self.blobs.has(request.ciphertext.sha256):
            raise ClusterError(ClusterErrorKind.WRONG_STATE, "send the blobs first")
        with self.blobs.open(request.ciphertext.sha256) as file:
            assert has_root(request.key, s.terms(), request.manifest, file)
        self.offers[request.key] = request
        return self.receipt(request.key, shown=False)

    def show_key(self, caller: t.Caller, request: t.ShownKey) -> t.ReceiptReply:
        """Decrypt a delivery."""
        offer = self.offers[request.key]
        made: Any = SimpleNamespace(offer=offer, secret=request.secret, roots=request.roots)
        opened = unseal(self.blobs, request.key, s.terms(), made, headers(s.TINY))
        assert isinstance(opened, OpenedDelivery)
        assert not opened.reason
        self.shares.put(opened.packet)
        return self.receipt(request.key, shown=True)

    def receipt(self, key: ShareKey, *, shown: bool) -> t.ReceiptReply:
        claim = self.claims[key]
        document = receipt_sign_bytes(s.CHAIN, claim, self.offers[key].manifest, s.CLOCK, shown=shown)
        receipt = t.DeliveryReceipt(s.CLOCK, shown, s.VALIDATOR_KEY.sign(document))
        return t.ReceiptReply(self.verdict.accepted, self.verdict.reason, self.verdict.text, receipt)

    def submit_opening(self, caller: t.Caller, request: t.OpeningSubmission) -> t.Verdict:
        self.opened.put(request)
        return t.Verdict(True)


@dataclass
class Measuring(Validator):
    """Admits who was measured, as a validator's prober does it."""

    prober: Prober = field(default_factory=Prober)

    def join(self, caller: t.Caller, request: t.JoinRequest) -> t.JoinReply:
        self.prober.want([caller.address])
        limits = t.JoinLimits(1, 20)
        if self.prober.measured():
            return t.JoinReply(True, "", limits)
        return t.JoinReply(False, "being measured", limits, probe=True)

    def probe(self, caller: t.Caller, request: t.ProbeRequest) -> t.ProbeTask:
        return self.prober.step(caller.address, request.digests)


@dataclass
class World:
    up: Running
    answers: Validator
    chain: s.FolderChain
    home: Path

    def state(self, blob: t.BlobRef, specs: object) -> bytes:
        data = self.answers.blobs.read(blob.sha256, 0, blob.size)
        return state_tree(decode_state(data, specs)).root  # type: ignore[arg-type]

    def poll_until(self, holds: Callable[[t.PollRequest], bool]) -> t.PollRequest:
        """Wait for a poll from now on."""
        self.answers.polls = Queue()
        while True:
            request = self.answers.polls.get(timeout=WAIT)
            if holds(request):
                return request


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running(tmp_path / "validator") as up:
        answers = Validator(up.answers.blobs)
        up.server._handlers = answers
        s.give_payload(answers.blobs)
        (tmp_path / "chain").mkdir()
        chain = s.FolderChain(tmp_path / "chain")
        chain.write(s.order(), s.validator_record(up.endpoint, up.certificate.der))
        answers.commits = lambda signed: chain.write(on_chain(signed, chain.order(s.ORDER_ID)))
        yield World(up, answers, chain, tmp_path / "home")


@contextmanager
def daemon(world: World, behaviour: Behaviour | None = None) -> Iterator[None]:
    """The daemon on a thread of this process; its worker is a process all the same."""
    stop, errors = Event(), []
    made = Daemon(s.config(world.home), s.CHAIN, world.chain, world.chain, behaviour, stop)

    def run() -> None:
        try:
            made.run()
        except Exception as error:  # noqa: BLE001 - shown by the test
            errors.append(error)

    thread = Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(WAIT)
    assert not errors
    assert not thread.is_alive()


@contextmanager
def process(world: World) -> Iterator["subprocess.Popen[str]"]:
    s.config(world.home)
    command = [sys.executable, "-m", "tests.unit.compute_provider.support"]
    with subprocess.Popen(
        [*command, str(world.home), str(world.chain.folder)], stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def on_chain(signed: t.ShareSubmission, known: OrderResponse) -> OrderResponse:
    """Return the order with the commitment in it."""
    committed = Share(signed.claim, signed.signature, bytes(32), 1, 1, ShareState.COMMITTED, 0, 0, 0, (), None)
    return replace(known, shares=(*known.shares, committed))


def check_share(world: World, share: t.ShareDelivery) -> None:
    """What a validator checks of a delivery before anything is replayed."""
    # each share is signed before it is delivered, and of several the order is not said
    while (signed := world.answers.signed.get(timeout=WAIT)).claim.key != share.key:
        world.answers.signed.put(signed)
    claim, known = signed.claim, s.terms()
    assert verify(s.PROVIDER.pub_key, share_sign_bytes(s.CHAIN, claim), signed.signature)
    leaves = leaves_of(share)
    assert compute_trace_root(leaves) == share.roots.trace_root
    assert len(leaves) == 5
    opening = (known.global_root, known.local_root)
    made = share_commitment(s.CHAIN, share.key, claim.provider, opening, 1, share.roots)
    assert claim.commitment == made
    assert share.roots.metrics == share.boundaries[-1].metrics


def specs(kind: str) -> list[object]:
    from pol.job.load import load_job

    document = load_job(s.TINY).job.document
    return list(document.global_tensors if kind == "global" else document.local_tensors)


def test_a_share_is_trained_submitted_opened_and_let_go(world: World) -> None:
    world.answers.tasks = (s.task(),)
    key = s.task().key
    with daemon(world):
        share = world.answers.shares.get(timeout=WAIT)
        check_share(world, share)
        update, local_out = share.blobs
        assert world.state(update, specs("global")) == share.roots.update_root
        assert world.state(local_out, specs("local")) == share.roots.local_out
        # Joined on the chain, with the bond that the share needs.
        assert world.chain.sent() == ["MsgRegisterProvider", "MsgDepositBond"]
        world.answers.tasks = ()
        world.answers.openings = (t.OpenTask(key, (1, 3, 5)),)
        for index in (1, 3, 5):
            opening = world.answers.opened.get(timeout=WAIT)
            assert opening.index == index
            opened = boundary_root(
                world.state(opening.global_state, specs("global")),
                world.state(opening.local_state, specs("local")),
                share.boundaries[index - 1].metrics,
            )
            assert opened == share.boundaries[index - 1].boundary_root
        world.answers.openings = ()
        assert (world.home / "shares" / name_of(key)).exists()
        world.chain.write(s.with_order(s.order(), state=OrderState.CLOSED))
        world.poll_until(lambda request: not request.doing)
    assert not (world.home / "shares" / name_of(key)).exists()
    assert not (world.home / "jobs" / key.order_id.hex()).exists()
    status = read_status(world.home)
    assert status is not None
    assert status["joined"]
    assert status["node"] == s.config(world.home).node
    # what confines the tests is said behind it
    assert status["computing"].startswith(computing(s.config(world.home).engine))
    assert status["shares"] == []


def worker_pids() -> set[int]:
    """Return the workers of daemons on threads of this process."""
    found = set()
    for child in psutil.Process().children():
        # one may end while it is looked at
        with suppress(psutil.ZombieProcess, psutil.NoSuchProcess):
            if "compute_provider.work.worker" in child.cmdline():
                found.add(child.pid)
    return found


def test_a_provider_serves_several_slots_of_a_round_one_after_another(world: World) -> None:
    world.answers.tasks = tuple(s.task(slot) for slot in range(2))
    shares: dict[int, t.ShareDelivery] = {}
    most = 0
    seen: set[int] = set()
    with daemon(world):
        while len(shares) < 2:
            doing = world.answers.polls.get(timeout=WAIT).doing
            most = max(most, sum(d.phase is t.Phase.TRAINING for d in doing))
            seen |= worker_pids()
            # What is still listed is submitted again.
            while not world.answers.shares.empty():
                share = world.answers.shares.get(timeout=WAIT)
                shares[share.key.slot] = share
        # The process of the first share has lived on, and ends with its order.
        assert len(seen) == 1
        world.answers.tasks = ()
        world.chain.write(s.with_order(s.order(), state=OrderState.CLOSED))
        wait_until(lambda: not worker_pids(), "the end of the worker", WAIT)
    assert most == 1
    for share in shares.values():
        check_share(world, share)
    # Each slot has its own rows.
    assert shares.keys() == {0, 1}
    assert shares[0].boundaries[0].boundary_root != shares[1].boundaries[0].boundary_root


def test_progress_and_loss_are_told(world: World) -> None:
    world.answers.tasks = (s.task(),)
    with daemon(world):
        world.answers.shares.get(timeout=WAIT)
        told = world.poll_until(lambda request: any(d.phase is t.Phase.SUBMITTED for d in request.doing))
    (doing,) = told.doing
    assert (doing.step, doing.steps) == (10, 10)
    assert doing.loss != t.NAN_BITS


def test_kill_9_at_any_poll_and_in_the_submission_ends_in_the_same_share(world: World) -> None:
    with daemon(world):
        world.answers.tasks = (s.task(),)
        expected = world.answers.shares.get(timeout=WAIT)
    world.home = world.home.with_name("killed")
    for number in (1, 2, 3, 4):
        world.answers.polls = Queue()
        with process(world) as child:
            for _ in range(number):
                world.answers.polls.get(timeout=WAIT)
            child.send_signal(signal.SIGKILL)
    # And while the validator holds the submission, before it answers.
    reached, go_on = Event(), Event()

    def hold() -> None:
        reached.set()
        go_on.wait(WAIT)

    world.answers.on_share = hold
    with process(world) as child:
        assert reached.wait(WAIT)
        child.send_signal(signal.SIGKILL)
    world.answers.on_share = lambda: None
    go_on.set()
    world.answers.shares = Queue()
    with process(world):
        assert world.answers.shares.get(timeout=WAIT) == expected


def test_a_task_that_the_chain_does_not_bear_out_is_not_trained(world: World) -> None:
    world.chain.write(s.with_order(s.order(), state=OrderState.MATCHED))
    world.answers.tasks = (s.task(),)
    with daemon(world):
        for _ in range(5):
            world.answers.polls.get(timeout=WAIT)
        world.poll_until(lambda request: len(request.doing) == 1)
        assert not (world.home / "jobs").exists()
        assert world.answers.shares.empty()
        # When the chain says so too, the same task is trained.
        world.chain.write(s.order())
        check_share(world, world.answers.shares.get(timeout=WAIT))


def test_a_cancelled_task_is_dropped(world: World) -> None:
    wrong = replace(s.order(), escrow=replace(s.order().escrow, depositors=()))
    world.chain.write(wrong)
    world.answers.tasks = (s.task(),)
    with daemon(world):
        world.poll_until(lambda request: len(request.doing) == 1)
        world.answers.tasks = ()
        world.poll_until(lambda request: not request.doing)


def test_nothing_leaves_before_its_commitment_is_on_chain(world: World) -> None:
    """A validator that gets the commitment and sends none to the chain gets nothing that it could take."""
    world.answers.tasks = (s.task(),)
    world.answers.commits = lambda _signed: None
    with daemon(world):
        signed = world.answers.signed.get(timeout=WAIT)
        world.poll_until(lambda request: bool(request.doing))
        # Another one under the share's name is not what was signed.
        other = replace(signed, claim=replace(signed.claim, commitment=bytes(32)))
        world.chain.write(on_chain(other, s.order()))
        for _ in range(20):
            world.poll_until(lambda request: bool(request.doing))
        assert world.answers.shares.empty()
        world.chain.write(on_chain(signed, s.order()))
        world.answers.shares.get(timeout=WAIT)


def test_an_order_that_there_is_not_does_not_hide_a_commitment(world: World) -> None:
    """A validator that lists one keeps it listed while it commits an honest share."""
    world.answers.tasks = (s.task(),)
    world.answers.commits = lambda _signed: None
    with daemon(world):
        signed = world.answers.signed.get(timeout=WAIT)
        made_up = replace(s.task(), key=ShareKey(bytes(32), 1, 0, 0, 1))
        world.answers.tasks = (s.task(), made_up)
        world.poll_until(lambda request: len(request.doing) == 2)
        world.chain.write(on_chain(signed, s.order()))
        world.answers.shares.get(timeout=WAIT)


def elsewhere(issue: int) -> t.TrainTask:
    """A task whose opening state nobody has yet."""
    plain = s.task()
    blob = t.BlobRef(bytes([issue]) * 32, s.terms().global_bytes)
    state = t.StateRef(plain.global_in.root, blob)
    return s.signed(replace(plain, key=replace(plain.key, issue=issue), global_in=state))


def test_downloads_that_hang_do_not_keep_it_from_seeing_the_chain(world: World) -> None:
    hanging, release = list[int](), Event()

    def hang(caller: t.Caller, request: t.GetChunkRequest) -> t.Chunk:
        hanging.append(1)
        release.wait(WAIT)
        raise ClusterError(ClusterErrorKind.NOT_FOUND, "never")

    world.answers.tasks = (s.task(),)
    with daemon(world):
        world.answers.shares.get(timeout=WAIT)
        world.answers.get_chunk = hang  # type: ignore[method-assign]
        world.answers.tasks = tuple(elsewhere(issue) for issue in range(2, 8))
        wait_until(lambda: len(hanging) >= 4, "four downloads that hang")
        world.chain.write(s.with_order(s.order(), state=OrderState.CLOSED))
        share = world.home / "shares" / name_of(s.task().key)
        try:
            wait_until(lambda: not share.exists(), "the trace that is let go", 9.0)
        finally:
            release.set()


def test_a_download_without_end_ends_with_its_task(world: World) -> None:
    sent, whole, release = list[int](), world.answers.get_chunk, Event()

    def trickle(caller: t.Caller, request: t.GetChunkRequest) -> t.Chunk:
        if request.sha256 != bytes([1]) * 32:
            return whole(caller, request)
        sent.append(request.offset)
        release.wait(WAIT)
        return t.Chunk(b"x", s.terms().global_bytes)

    world.answers.get_chunk = trickle  # type: ignore[method-assign]
    world.answers.tasks = (elsewhere(1),)
    with daemon(world):
        wait_until(lambda: sent, "the first chunk to be asked for")
        world.answers.tasks = ()
        world.poll_until(lambda request: not request.doing)
        release.set()  # it comes when nobody wants it any more
        partial = world.home / "blobs" / "partial"
        world.answers.polls = Queue()
        for _ in range(20):
            world.answers.polls.get(timeout=WAIT)
        assert sent == [0]
        wait_until(lambda: not list(partial.iterdir()), "what came of it to be deleted")
        with sqlite3.connect(world.home / "blobs" / "blobs.db") as database:
            assert database.execute("SELECT COUNT(*) FROM holds").fetchall() == [(0,)]


def test_a_crash_between_dropping_a_share_and_deleting_it_leaves_nothing(world: World) -> None:
    world.answers.tasks = (s.task(),)
    with daemon(world):
        world.answers.shares.get(timeout=WAIT)
    world.answers.tasks = ()
    store = Store(world.home)
    store.save(store.load(), Shares())  # and there it was killed
    store.close()
    assert list((world.home / "blobs" / "complete").glob("*/*"))
    with daemon(world):
        world.answers.polls = Queue()
        world.answers.polls.get(timeout=WAIT)
    assert not list((world.home / "blobs" / "complete").glob("*/*"))
    assert not list((world.home / "jobs").iterdir())
    assert not list((world.home / "shares").iterdir())


def test_a_disk_that_is_full_ends_it_in_a_sentence(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Daemon(s.config(world.home), s.CHAIN, world.chain, world.chain)

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(made._store, "save", full)
    with pytest.raises(ProviderError, match=r"cannot be written .*disk is full.*start again"):
        made.run()


def test_who_hears_that_it_has_joined_finds_it_in_the_status(world: World) -> None:
    stop, found = Event(), list[dict[str, Any] | None]()

    def joined() -> None:
        found.append(read_status(world.home))
        stop.set()

    chain = world.chain
    Daemon(s.config(world.home), s.CHAIN, chain, chain, stop=stop).run(joined)
    (status,) = found
    assert status is not None
    assert (status["joined"], status["note"]) == (True, "")


def test_a_worker_that_does_not_start_and_a_status_that_is_not_written_are_not_the_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, tried = SandboxedTrainer.start, list[int]()

    def start(self: SandboxedTrainer, key: ShareKey, order: WorkOrder, program: Sequence[str]) -> None:
        tried.append(1)
        if len(tried) == 1:
            raise OSError(EAGAIN, "Resource temporarily unavailable")
        real(self, key, order, program)

    monkeypatch.setattr(SandboxedTrainer, "start", start)
    world.home.mkdir()
    (world.home / "status.json").mkdir()
    world.answers.tasks = (s.task(),)
    with daemon(world):
        check_share(world, world.answers.shares.get(timeout=WAIT))
    assert len(tried) == 2


def test_a_provider_is_measured_before_it_is_taken(world: World) -> None:
    measuring = Measuring(world.answers.blobs)
    world.up.server._handlers = measuring
    with daemon(world):
        measuring.polls.get(timeout=WAIT)
    (found,) = measuring.prober.measured()
    assert found.speed > 10**7
    assert found.bandwidth > 1 << 20
    pieces = tuple(piece for piece, _ in found.sample)
    digests = work_pieces(found.seed, pieces, backend(Engine("numpy")))
    assert tuple(zip(pieces, digests, strict=True)) == found.sample


def test_the_validators_new_place_is_read_from_the_chain(world: World, tmp_path: Path) -> None:
    with running(tmp_path / "elsewhere") as other:
        moved = Validator(other.answers.blobs)
        other.server._handlers = moved
        with daemon(world):
            world.answers.polls.get(timeout=WAIT)
            record = s.validator_record(other.endpoint, other.certificate.der)
            world.chain.write(s.order(), record)
            world.up.server.stop(0)
            moved.polls.get(timeout=WAIT)


@pytest.mark.parametrize("method", ["copy_trace", "late", "never_answer"])
def test_cheating_in_what_is_sent(world: World, method: str) -> None:
    world.answers.tasks = (s.task(seconds_left=1),)
    with daemon(world, cheats.parse(method, s.CHAIN)):
        if method == "never_answer":
            world.poll_until(lambda request: any(d.phase is t.Phase.UPLOADING for d in request.doing))
            for _ in range(10):
                world.answers.polls.get(timeout=WAIT)
            assert world.answers.shares.empty()
        else:
            start = time.monotonic()
            share = world.answers.shares.get(timeout=WAIT)
            assert method != "late" or time.monotonic() - start > 2  # its deadline was after 1 s
            if method == "late":
                check_share(world, share)
            else:
                with pytest.raises(AssertionError):
                    check_share(world, share)


def test_an_idle_daemon_is_small_and_loads_no_numerics(world: World) -> None:
    with process(world) as child:
        for _ in range(5):
            world.answers.polls.get(timeout=WAIT)
        resident = psutil.Process(child.pid).memory_info().rss
        child.terminate()
        assert child.stdout
        loaded = json.loads(child.stdout.read())
    assert child.returncode == 0
    assert loaded == []
    assert resident < 150 << 20


def test_no_worker_is_left_when_the_daemon_is_killed(world: World) -> None:
    world.answers.tasks = (s.task(),)
    seen: list[psutil.Process] = []
    with process(world) as child:
        parent = psutil.Process(child.pid)
        while not seen and world.answers.shares.empty():
            with suppress(Empty):
                world.answers.polls.get(timeout=0.01)
            seen = parent.children()
        os.kill(child.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(seen, timeout=WAIT)
    assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]
