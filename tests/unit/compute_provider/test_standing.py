"""The provider with a real node and a real validator: it waits for them, outlives their absence, and stops at once."""

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Queue
from threading import Event, Thread
from typing import Any

import psutil
import pytest

from chain.client.client import ChainClient
from chain.client.errors import ChainError
from chain.client.sender import TxSender
from compute_provider import api
from compute_provider.interfaces import ProviderConfig, ProviderError
from compute_provider.store import Store, read_status
from domain.genesis import Genesis, GenesisAccount
from domain.ledger.records import Coin
from domain.market.records import JobTerms
from domain.proof.records import Share, ShareState
from domain.registry.messages import MsgSetEndpoint
from domain.registry.queries import ProviderRequest
from link import types as t
from link.errors import ClusterError, ClusterErrorKind
from pol.executor.names import Engine
from tests.support import solo_node
from tests.support.solo_node import OPERATOR, SoloNode, making_blocks
from tests.support.waiting import wait_until
from tests.unit.compute_provider import support as s
from tests.unit.link.support import CHAIN, Answers, Running
from tests.unit.link.support import running as running_validator

WAIT = 60.0
SOON = 5.0  # seconds in which a stop has to be done


def genesis() -> Genesis:
    plain = solo_node.genesis()
    provider = GenesisAccount(s.PROVIDER.address, (Coin("uassay", 10**15),))
    return replace(plain, chain_id=CHAIN, accounts=(*plain.accounts, provider))


@dataclass
class Validator(Answers):
    """Takes what it is sent, as long as ``hold`` is not set."""

    polls: "Queue[t.PollRequest]" = field(default_factory=Queue)
    joined: Event = field(default_factory=Event)
    held: Event = field(default_factory=Event)  # a chunk has come and gets no answer
    release: Event = field(default_factory=Event)
    tasks: tuple[t.TrainTask, ...] = ()

    def join(self, caller: t.Caller, request: t.JoinRequest) -> t.JoinReply:
        self.joined.set()
        return super().join(caller, request)

    def poll(self, caller: t.Caller, request: t.PollRequest) -> t.PollReply:
        self.polls.put(request)
        return t.PollReply(self.tasks, (), 20)

    def put_chunk(self, caller: t.Caller, request: t.PutChunkRequest) -> t.BlobStatus:
        self.held.set()
        self.release.wait(WAIT)
        return super().put_chunk(caller, request)


@pytest.fixture
def validator(tmp_path: Path) -> Iterator[Running]:
    with running_validator(tmp_path / "validator") as up:
        answers = Validator(up.answers.blobs)
        up.server._handlers = up.answers = answers
        yield up
        answers.release.set()


@contextmanager
def node(directory: Path, address: str = "127.0.0.1:0") -> Iterator[SoloNode]:
    with solo_node.running(directory, address, chain=genesis()) as solo:
        solo.engine.make_block()
        yield solo


def publish(solo: SoloNode, validator: Running) -> None:
    message = MsgSetEndpoint(OPERATOR.address, validator.endpoint, validator.certificate.der)
    with ChainClient(solo.address) as client, making_blocks(solo.engine):
        TxSender(client, OPERATOR).send(message)


def config(home: Path, address: str, **changes: object) -> ProviderConfig:
    known = replace(s.config(home), node=address, validator=OPERATOR.address)
    return replace(known, **changes)  # type: ignore[arg-type]


@dataclass
class Provider:
    """A provider on a thread of this process."""

    stop: Event
    errors: list[BaseException]
    thread: Thread

    def ends_soon(self) -> None:
        started = time.monotonic()
        self.ends()
        assert time.monotonic() - started < SOON

    def ends(self) -> None:
        self.stop.set()
        self.thread.join(WAIT)
        assert not self.thread.is_alive()
        assert self.errors == []

    def error(self) -> BaseException:
        self.thread.join(WAIT)
        return self.errors[0]


@contextmanager
def provider(settings: ProviderConfig) -> Iterator[Provider]:
    stop, errors = Event(), list[BaseException]()

    def run() -> None:
        try:
            api.run_provider(settings, stop)
        except Exception as error:  # noqa: BLE001 - shown by the test
            errors.append(error)

    thread = Thread(target=run)
    thread.start()
    try:
        yield Provider(stop, errors, thread)
    finally:
        stop.set()
        thread.join(WAIT)
    assert not thread.is_alive()


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"127.0.0.1:{taken.getsockname()[1]}"


def answers_of(validator: Running) -> Validator:
    assert isinstance(validator.answers, Validator)
    return validator.answers


def test_a_provider_waits_for_its_node_and_outlives_a_restart_of_it(
    validator: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    address = free_address()
    caplog.set_level(logging.WARNING, "assay.provider")
    answers = answers_of(validator)
    with provider(config(tmp_path / "home", address)) as running:
        away, there = f"waiting for the node at {address}: ", f"the node at {address} answers"
        wait_until(lambda: f"{away}no node answers at {address}" in caplog.text, "the word that it waits")
        with node(tmp_path / "chain", address) as solo:
            publish(solo, validator)
            with making_blocks(solo.engine):
                assert answers.joined.wait(WAIT)
                answers.polls.get(timeout=WAIT)
        # The node is gone in the middle: the provider goes on, says so once, and finds it when it is back. It says that
        # no node answers, or that this one ended a call, if there was one.
        wait_until(lambda: caplog.text.count(away) == 2, "the word that it is away", WAIT)
        answers.polls = Queue()
        answers.polls.get(timeout=WAIT)
        with node(tmp_path / "chain", address):
            answers.polls.get(timeout=WAIT)
            wait_until(lambda: caplog.text.count(there) == 2, "the word that it is back", WAIT)
            assert caplog.text.count(away) == 2
            running.ends()


@pytest.mark.parametrize("silent", [False, True])
def test_it_stops_while_it_waits_for_a_node(tmp_path: Path, silent: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}" if silent else free_address()
        with provider(config(tmp_path / "home", address)) as running:
            if silent:
                server.accept()[0].close()
            running.ends_soon()


def test_it_stops_while_a_transaction_hangs(validator: Running, tmp_path: Path) -> None:
    with node(tmp_path / "chain") as solo:
        publish(solo, validator)
        with provider(config(tmp_path / "home", solo.address)) as running:
            wait_until(lambda: solo.engine.waiting, "its registration, which no block takes")
            running.ends_soon()


def committed_share(submission: t.ShareSubmission, terms: JobTerms) -> Share:
    return Share(
        claim=submission.claim,
        signature=submission.signature,
        local_in=terms.local_root,
        work=0,
        bond=0,
        state=ShareState.COMMITTED,
        reason=0,
        committed_at=0,
        committed_height=1,
        drawn=(),
        roots=None,
    )


def test_it_stops_while_a_blob_hangs_and_goes_on_from_there(
    validator: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = answers_of(validator)
    s.give_payload(answers.blobs)
    order = s.with_leg(s.order(), validator=OPERATOR.address)
    committed: list[Share] = []

    def submit_share(self: Validator, caller: t.Caller, request: t.ShareSubmission) -> t.Verdict:
        # Nothing of the work goes to the validator before the chain has the commitment to it.
        committed[:] = [committed_share(request, order.order.terms)]
        return t.Verdict(True)

    monkeypatch.setattr(Validator, "submit_share", submit_share)
    monkeypatch.setattr(api.NodeChain, "order", lambda self, order_id: replace(order, shares=tuple(committed)))
    answers.tasks = (s.signed(s.task(), OPERATOR, CHAIN),)
    with node(tmp_path / "chain") as solo:
        publish(solo, validator)
        settings = config(tmp_path / "home", solo.address)
        with making_blocks(solo.engine):
            with provider(settings) as running:
                assert answers.held.wait(WAIT)
                assert committed
                running.ends_soon()
            answers.release.set()
            shares = Queue[t.DeliveryOffer]()

            def deliver_share(self: Validator, caller: t.Caller, request: t.DeliveryOffer) -> t.ReceiptReply:
                shares.put(request)
                return t.ReceiptReply(True)

            monkeypatch.setattr(Validator, "deliver_share", deliver_share)
            started = time.monotonic()
            with provider(settings):
                shares.get(timeout=WAIT)
            assert time.monotonic() - started < WAIT


def workers_here() -> list[psutil.Process]:
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.Error):  # it ended meanwhile
            if "compute_provider.work.worker" in child.cmdline():
                found.append(child)
    return found


def test_it_stops_while_it_trains_and_leaves_no_worker(
    validator: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = answers_of(validator)
    s.give_payload(answers.blobs)
    order = s.with_leg(s.order(), validator=OPERATOR.address)
    monkeypatch.setattr(api.NodeChain, "order", lambda self, order_id: order)
    answers.tasks = (s.signed(s.task(), OPERATOR, CHAIN),)
    with node(tmp_path / "chain") as solo:
        publish(solo, validator)
        settings = config(tmp_path / "home", solo.address)
        with making_blocks(solo.engine), provider(settings) as running:
            while not any(doing.phase is t.Phase.TRAINING for doing in answers.polls.get(timeout=WAIT).doing):
                pass
            # A share counts as in training from the moment at which its worker is asked for.
            workers = wait_until(workers_here, "a worker", WAIT)
            running.ends()
            assert not any(process.is_running() for process in workers)


def test_it_stops_while_it_measures_itself(validator: Running, tmp_path: Path) -> None:
    with node(tmp_path / "chain") as solo:
        publish(solo, validator)
        settings = config(tmp_path / "home", solo.address)
        fresh = replace(settings, home=tmp_path / "fresh", engine=Engine("numpy"))
        with provider(fresh) as running:
            wait_until((tmp_path / "fresh" / "provider.lock").exists, "the daemon")
            running.ends_soon()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"validator": "nobody"}, "no validator is called nobody"),
        ({"validator": s.VALIDATOR}, "no validator is called assay1"),
    ],
)
def test_an_unknown_validator_ends_it_at_once(tmp_path: Path, changes: dict[str, str], sentence: str) -> None:
    with (
        node(tmp_path / "chain") as solo,
        provider(config(tmp_path / "home", solo.address, **changes)) as running,
    ):
        error = running.error()
    assert isinstance(error, ProviderError)
    assert sentence in str(error)


def test_a_validator_goes_by_its_moniker(validator: Running, tmp_path: Path) -> None:
    with node(tmp_path / "chain", "[::1]:0") as solo:
        publish(solo, validator)
        settings = config(tmp_path / "home", solo.address, validator="one")
        with making_blocks(solo.engine), provider(settings) as running:
            assert answers_of(validator).joined.wait(WAIT)
            running.ends_soon()


def spoil_chain(home: Path) -> None:
    store = Store(home)
    store.belong("chain", "assay-local-another")
    store.close()


def spoil_owner(home: Path) -> None:
    store = Store(home)
    store.belong("owner", "assay1another")
    store.close()


@pytest.mark.parametrize("spoil", [spoil_chain, spoil_owner])
def test_a_home_of_another_chain_or_key_ends_it_at_once(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    settings = config(tmp_path / "home", "")
    spoil(settings.home)
    with (
        node(tmp_path / "chain") as solo,
        provider(replace(settings, node=solo.address)) as running,
    ):
        error = running.error()
    assert isinstance(error, ProviderError)
    assert "belongs to" in str(error)


def test_something_else_than_a_node_ends_it_at_once(validator: Running, tmp_path: Path) -> None:
    import grpc

    from tests.unit.chain.client.test_client import Rude

    server = grpc.server(ThreadPoolExecutor(2), handlers=[Rude(b"\xff\xff\xff")])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with provider(config(tmp_path / "home", f"127.0.0.1:{port}")) as running:
        error = running.error()
    server.stop(None).wait()
    assert isinstance(error, ChainError)
    assert "does not answer like an assay node" in str(error)


def test_two_providers_do_not_share_a_home(validator: Running, tmp_path: Path) -> None:
    with node(tmp_path / "chain") as solo:
        publish(solo, validator)
        settings = config(tmp_path / "home", solo.address)
        with making_blocks(solo.engine), provider(settings):
            assert answers_of(validator).joined.wait(WAIT)
            with provider(settings) as second:
                error = second.error()
    assert isinstance(error, ProviderError)
    assert "runs in" in str(error)


def test_two_providers_of_one_machine_do_not_share_a_key(validator: Running, tmp_path: Path) -> None:
    """As in a copy of a home: it is another folder and another number of a process, and the same key."""
    with node(tmp_path / "chain") as solo:
        publish(solo, validator)
        with making_blocks(solo.engine), provider(config(tmp_path / "home", solo.address)):
            assert answers_of(validator).joined.wait(WAIT)
            with provider(config(tmp_path / "copy", solo.address)) as second:
                error = second.error()
    assert isinstance(error, ProviderError)
    assert f"another provider on this machine already uses this key: process {os.getpid()}" in str(error)


def test_a_provider_whose_key_another_machine_uses_waits_and_says_so(
    validator: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is served as soon as the other one is silent."""
    answers = answers_of(validator)
    sessions, taken = set[bytes](), Event()
    taken.set()

    def join(self: Validator, caller: t.Caller, request: t.JoinRequest) -> t.JoinReply:
        sessions.add(request.session)
        if taken.is_set():
            raise ClusterError(ClusterErrorKind.TAKEN, "another daemon is joined", "end one of both")
        return super(Validator, self).join(caller, request)

    monkeypatch.setattr(Validator, "join", join)
    home = tmp_path / "home"

    def status() -> dict[str, Any]:
        return read_status(home) or {}

    with node(tmp_path / "chain") as solo:
        publish(solo, validator)
        with making_blocks(solo.engine), provider(config(home, solo.address)):
            said = "another daemon is joined; end one of both"
            wait_until(lambda: status().get("warning") == said, "the warning")
            assert not status()["joined"]
            taken.clear()
            answers.polls.get(timeout=WAIT)
            wait_until(lambda: status()["joined"] and not status()["warning"], "its place")
    (session,) = sessions
    assert len(session) == 16


def test_a_bond_that_is_not_there_is_said_before_anything_is_on_chain(
    validator: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "assay.provider")
    too_much = 2 * 10**15
    with node(tmp_path / "chain") as solo:
        publish(solo, validator)
        settings = config(tmp_path / "home", solo.address, bond=too_much)
        with making_blocks(solo.engine):
            said = f"--bond asks for a free bond of 2000000000ASSAY; {s.PROVIDER.address} has a free bond of 0ASSAY and"
            with provider(settings) as running:
                wait_until(lambda: said in caplog.text, "the sentence")
                running.ends_soon()
            assert "works with the bond that it has" not in caplog.text
            with ChainClient(solo.address) as client:
                assert client.query(ProviderRequest(s.PROVIDER.address)).provider is None
            # One that is in the cluster works with the bond that it has, and says so once.
            with provider(replace(settings, bond=0)) as running:
                answers_of(validator).polls.get(timeout=WAIT)
                running.ends_soon()
            caplog.clear()
            with provider(settings) as running:
                for _ in range(5):
                    answers_of(validator).polls.get(timeout=WAIT)
                running.ends_soon()
            assert caplog.text.count(said) == 1
            assert "the provider works with the bond that it has" in caplog.text
