"""The library: a session takes the values of the command line, and knows what commands ordered."""

import doctest
from dataclasses import replace
from hashlib import sha256
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, cast

import click
import pytest

import assay
import consumer.jobs
import consumer.submit
import consumer.watch
import pol.local.inspect
import pol.local.run
import pol.replay.replay
from assay.cli import job, order, trace, tx
from assay.cli.conditions import condition_options, read_request
from assay.cli.context import CommandContext
from assay.session import PlacedOrder, Session
from chain.client.client import ChainClient
from chain.client.errors import ChainError, ErrorKind
from consumer.jobs import OrderNote, recall, remember
from consumer.request import OrderOptions, request_of
from domain.events import Change, to_event
from domain.keys import RoundKey
from domain.legs.events import OrderMatched
from domain.legs.records import LegState
from domain.market.events import OrderClosed
from domain.market.queries import (
    OrdersRequest,
    OrdersResponse,
    SimulateMatchRequest,
    SimulateMatchResponse,
)
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.node.queries import (
    EventsRequest,
    EventsResponse,
    LoggedEvent,
    StatusRequest,
    StatusResponse,
)
from domain.proof.events import RoundVerified
from domain.proof.params import ProofParams
from domain.proof.queries import OrderRequest
from pol.executor.names import Engine
from tests.unit.assay.cli.test_conditions import run
from tests.unit.assay.support import assay as command
from tests.unit.compute_provider import support as s
from tests.unit.consumer import test_submit
from tests.unit.pol.mlp import write_mlp_job
from tools.exports import origins
from wire.keys import Key

OTHER = b"\x77" * 32
AWAY = ChainError(ErrorKind.UNAVAILABLE, "no node answers at here", "")


class Node(ChainClient):
    """A node with a log; each look at the order finds the next state of it. ``away`` answers are none at all."""

    def __init__(self, log: list[Change], states: list[OrderState], away: int = 0) -> None:
        super().__init__("127.0.0.1:1")
        self.log = [
            LoggedEvent(event.number, 1, event.type, event.attributes)
            for event in (to_event(change, number) for number, change in enumerate(log, 1))
        ]
        self.states, self.away, self.asked = states, away, list[int]()

    def query(self, request: object) -> Any:
        if self.away:
            self.away -= 1
            raise AWAY
        match request:
            case EventsRequest(since, _):
                self.asked.append(since)
                return EventsResponse(tuple(self.log[since - 1 :][:2]), len(self.log) + 1)
            case StatusRequest():
                return StatusResponse("assay-test", 1, 0, 50, 1, b"", False, 1_000)
            case OrderRequest():
                state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
                matched = s.with_leg(s.order(), state=LegState.RUNNING, number=1)
                return s.with_order(matched, state=state, legs=1)
        raise AssertionError(request)


LOG: list[Change] = [
    OrderClosed(OTHER, CloseReason.SETTLED, 0, ()),
    OrderMatched(s.ORDER_ID, 1, "assay1v", b"\x01" * 32, 5, 6, 7, "exact", 0, 1, 0, 1, bytes(32), 8, 9, 0),
    RoundVerified(RoundKey(OTHER, 1, 0), 5, 1, 0),
    RoundVerified(RoundKey(s.ORDER_ID, 1, 0), 5, 1, 0),
    OrderClosed(s.ORDER_ID, CloseReason.SETTLED, 3, ()),
]


def session(node: ChainClient, home: Path) -> Session:
    return Session(node, lambda: Key(b"\x01" * 32), home)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer.watch, "POLL_SECONDS", 0.001)


def test_what_is_not_asked_for_is_what_the_command_line_takes() -> None:
    assert request_of() == run(condition_options, read_request)


def test_the_keywords_are_the_options_of_the_command_line() -> None:
    command = click.Command("order", params=[])
    condition_options(command)
    assert {option.name for option in command.params} == set(OrderOptions.__annotations__)


def test_all_that_the_command_line_takes_may_be_asked_for() -> None:
    given = (
        "--device-class cpu --memory 8GiB --regions fr,de --tier exact --price-limit 7 --deadline 2h"
        " --time-to-live 90s --no-rematch"
    )
    asked = request_of(
        device_class="cpu",
        memory=8 << 30,
        regions=["fr", "de"],
        tiers=("exact",),
        price_limit=7,
        deadline=7200,
        time_to_live=90,
        rematch=False,
    )
    assert asked == run(condition_options, read_request, *given.split())


# Another call plans for machines.
OF_MACHINES = {"machines": "", "machine_speed": "", "machine_memory": "", "machine_link": ""}
# A program gives an engine, whose fields are these options.
OF_ENGINE = {"backend": "", "device": "", "threads": "", "memory": ""}
SAME: dict[str, tuple[click.Command, object, dict[str, str]]] = {
    "job inspect": (
        job.inspect,
        pol.local.inspect.job_outlook,
        {"params_file": "params", "directory": "", **OF_MACHINES},
    ),
    "job run": (job.run, pol.local.run.run_locally, {"to": "out", **OF_ENGINE}),
    "trace verify": (
        trace.verify,
        pol.replay.replay.verify_trace,
        {"file": "trace", "directory": "", "against": "", "inputs": "", **OF_ENGINE},
    ),
    "order list": (order.list_, Session.orders, {}),
    "order result": (order.result, PlacedOrder.result, {"to": "", "directory": "", "order": "", "yes": ""}),
    "order complain": (order.complain, PlacedOrder.complain, {"directory": "", "order": ""}),
    "order never-served": (order.never_served, PlacedOrder.never_served, {"order": ""}),
    "tx send": (tx.send, Session.send, {}),
}
"""Commands, what does the same in a program, and names that differ there (empty: of another call)."""
OTHER_DEFAULTS = {
    # The chain's reference, or those of the job.
    "slot_speed": None,
    # A word for all of them.
    "segments": "all",
}


@pytest.mark.parametrize("name", SAME)
def test_each_option_is_a_keyword_with_the_same_default(name: str) -> None:
    command, call, others = SAME[name]
    taken = signature(cast(Any, call)).parameters
    compared = 0
    for option in command.params:
        if option.name in ("home", "node", "keyring", "from_", "output"):
            continue
        keyword = others.get(str(option.name), option.name)
        if keyword:
            default = taken[keyword].default
            compared += 1
            if isinstance(option, click.Option) and not option.required:
                given = option.to_info_dict()["default"]
                assert given == OTHER_DEFAULTS.get(keyword, default), keyword
    assert compared


@pytest.mark.parametrize("command", [job.run, trace.verify])
def test_the_options_of_an_engine_are_its_fields_with_the_same_defaults(command: click.Command) -> None:
    given = {option.name: option.to_info_dict()["default"] for option in command.params if option.name in OF_ENGINE}
    assert given.keys() == OF_ENGINE.keys()
    engine = Engine()
    assert (given["backend"], given["device"]) == (engine.name, engine.device)
    assert not given["threads"]
    assert not given["memory"]
    assert not engine.threads
    assert not engine.memory


@pytest.mark.parametrize(
    "asked",
    [
        {"price_limit": "5ASSAY"},
        {"memory": "8GiB"},
        {"deadline": 3600.5},
        {"time_to_live": None},
        {"regions": "eu"},
    ],
)
def test_what_is_of_another_kind_is_named(tmp_path: Path, asked: dict[str, Any]) -> None:
    write_mlp_job(tmp_path)
    network = session(Node([], [OrderState.OPEN]), tmp_path)
    for asking in (network.quote, network.submit):
        with pytest.raises(assay.ConsumerError) as refused:
            asking(tmp_path, **asked)
        assert refused.value.field in asked
        mistyped: dict[str, Any] = {"pricelimit": 5}
        with pytest.raises(TypeError, match="pricelimit"):
            asking(tmp_path, **mistyped)


def test_a_state_is_one_of_an_order(tmp_path: Path) -> None:
    order = PlacedOrder(session(Node([], [OrderState.OPEN]), tmp_path), s.ORDER_ID)
    until: Any = "proven"
    for asking in (lambda: order.wait(until), lambda: list(order.events(until))):
        with pytest.raises(assay.ConsumerError, match=r"assay\.OrderState\.PROVEN"):
            asking()


@pytest.mark.parametrize("away", [0, 3])
def test_events_are_those_of_the_order_to_its_end(tmp_path: Path, away: int) -> None:
    node = Node(LOG, [OrderState.RUNNING, OrderState.CLOSED], away)
    found = list(PlacedOrder(session(node, tmp_path), s.ORDER_ID).events())
    assert found == [LOG[1], LOG[3], LOG[4]]


def test_events_begin_where_the_order_did(tmp_path: Path) -> None:
    write_mlp_job(tmp_path)
    remember(tmp_path, OrderNote(s.ORDER_ID, tmp_path, "assay1c", since=4))
    node = Node(LOG, [OrderState.CLOSED])
    found = list(PlacedOrder(session(node, tmp_path), s.ORDER_ID).events())
    assert found == LOG[3:]
    assert node.asked[0] == 4


def test_what_happened_before_the_last_look_is_told(tmp_path: Path) -> None:
    """An order may come to its end between the answer about events and the one about the order."""
    node = Node(LOG[:4], [OrderState.CLOSED])
    late = to_event(LOG[4], 5)
    asked = node.query

    def query(request: object) -> Any:
        answer = asked(request)
        if isinstance(request, OrderRequest) and len(node.log) == 4:
            node.log.append(LoggedEvent(late.number, 1, late.type, late.attributes))
        return answer

    node.query = query  # type: ignore[method-assign]
    assert list(PlacedOrder(session(node, tmp_path), s.ORDER_ID).events())[-1] == LOG[4]


def test_who_follows_for_too_long_is_told(tmp_path: Path) -> None:
    order = PlacedOrder(session(Node([], [OrderState.OPEN]), tmp_path), s.ORDER_ID)
    with pytest.raises(assay.StillWaiting, match="the order is still open"):
        list(order.events(seconds=0.01))


def test_an_order_knows_those_of_the_same_job_that_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_mlp_job(tmp_path / "job")
    document = consumer.jobs.read_job(tmp_path / "job")
    terms = replace(s.order().order.terms, job_id=document.id)
    lively = replace(s.order().order, id=OTHER, terms=terms, state=OrderState.OPEN)
    closed = replace(lively, id=b"\x78" * 32, state=OrderState.CLOSED)
    strange = replace(lively, id=b"\x79" * 32, terms=s.order().order.terms)

    class Market(test_submit.Node):
        def query(self, request: Any) -> Any:
            match request:
                case OrdersRequest():
                    return OrdersResponse((closed, lively, strange))
                case EventsRequest():
                    return EventsResponse((), 1)
                case SimulateMatchRequest():
                    return SimulateMatchResponse((), ())
            return super().query(request)

    def sender(client: ChainClient, key: Key) -> test_submit.Sender:
        return test_submit.Sender(client, [test_submit.opened(s.ORDER_ID)])

    monkeypatch.setattr(assay.session, "TxSender", sender)
    said: list[str] = []
    network = Session(Market(1), lambda: test_submit.KEY, tmp_path, said.append)
    order = network.submit(tmp_path / "job", price_limit=10**12)
    assert [(other.id, other.session) for other in order.others] == [(OTHER, network)]
    assert "already have active orders of this job: 777777777777 (open)" in said[0]
    assert said[1] == (
        "there are no bids; wait for bids: an order with a price limit"
        " (price_limit=) stays in the book; the order waits at most 10.0 min"
    )
    assert network.order(order.id).others == ()


def test_a_session_and_the_command_line_place_an_order_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    placed: list[tuple[Any, ...]] = []

    def place_order(client: ChainClient, sender: Any, key: Key, job: Any, request: Any, **kept: Any) -> Any:
        placed.append((client.address, key.address, job.id, request, kept["directory"], kept["home"]))
        raise assay.ConsumerError("not placed in this test")

    monkeypatch.setattr(consumer.submit, "place_order", place_order)
    monkeypatch.setattr(assay.session, "place_order", place_order)
    monkeypatch.setattr(CommandContext, "sender", lambda *_: None)
    write_mlp_job(tmp_path / "job")
    assay.Keyring(tmp_path / "keys", "test").add("alice")
    with (
        assay.connect("127.0.0.1:9", home=tmp_path, keyring="test") as network,
        pytest.raises(assay.ConsumerError),
    ):
        network.submit(tmp_path / "job", regions=["eu"], deadline=3600)
    words = ["--regions", "eu", "--deadline", "1h", "--node", "127.0.0.1:9", "--keyring", "test"]
    ran = command("order", "submit", str(tmp_path / "job"), *words, home=tmp_path)
    assert "not placed in this test" in ran.refusal
    assert placed[0] == placed[1]


def test_an_order_of_the_command_line_is_known(tmp_path: Path) -> None:
    """And a note of an earlier version, which has no number of an event, is read."""
    note = OrderNote(s.ORDER_ID, tmp_path / "job", "assay1c", since=7)
    remember(tmp_path, note)
    assert recall(tmp_path, s.ORDER_ID) == note
    order = session(Node([], [OrderState.OPEN]), tmp_path).order(s.ORDER_ID)
    assert order.job == tmp_path / "job"
    path = tmp_path / "orders" / f"{s.ORDER_ID.hex()}.json"
    path.write_text('{"job": "/somewhere", "key": "assay1c"}')
    assert recall(tmp_path, s.ORDER_ID).since == 1
    path.unlink()
    with pytest.raises(assay.ConsumerError, match="--job DIR"):
        _ = order.job


def test_connect_takes_home_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.toml").write_text('keyring = "test"\nfrom = "bob"\n')
    monkeypatch.setenv("ASSAY_NODE", "127.0.0.1:9")
    for name in ("alice", "bob"):
        assay.Keyring(tmp_path / "keys", "test").add(name)
    bob = assay.Keyring(tmp_path / "keys", "test").show("bob").address
    with assay.connect(home=tmp_path) as network:
        assert network.client.address == "127.0.0.1:9"
        assert network.key.address == bob
    with assay.connect("127.0.0.1:10", home=tmp_path, key="alice", passphrase="") as network:
        assert network.client.address == "127.0.0.1:10"
        assert network.key.address != bob


@pytest.mark.parametrize("node", ["nonsense", "here:0", 9090])
def test_an_address_that_is_none_is_refused_at_once(node: Any, tmp_path: Path) -> None:
    with pytest.raises(assay.Error, match=r"^node: "):
        assay.connect(node, home=tmp_path)


def test_which_key_signs_is_told_in_both_languages(tmp_path: Path) -> None:
    ring = assay.Keyring(tmp_path / "keys", "test")
    network = assay.connect(home=tmp_path, keyring="test")
    for name in ("alice", "bob"):
        ring.add(name)
    with pytest.raises(assay.Error, match=r"one of alice, bob with --from NAME \(in Python: key=\)$"):
        _ = network.key


def test_a_passphrase_is_asked_for_only_where_something_is_signed(tmp_path: Path) -> None:
    with pytest.raises(assay.Error, match="use file or test"):
        assay.Keyring(tmp_path, "gold")
    with pytest.raises(assay.Error, match="use file or test"):
        _ = assay.connect("127.0.0.1:9", home=tmp_path, keyring="gold").key
    network = assay.connect("127.0.0.1:9", home=tmp_path)
    with network, pytest.raises(assay.Error, match="this home has no key to sign with"):
        _ = network.key


def test_directories_and_files_may_be_texts(made: Path) -> None:
    trace = assay.load_trace(str(made / "run" / "trace.json"))
    assert trace.job == assay.read_job(str(made)).id == assay.load_job(str(made)).job.id
    assert all(check.holds for check in assay.verify_trace(trace, str(made)))
    assert assay.run_locally(str(made), rounds=1).after


def test_kept_states_are_where_a_check_looks_for_them(made: Path) -> None:
    trace = assay.load_trace(made / "run" / "trace.json")
    assert [share.fault for share in trace.shares] == [""] * len(trace.shares)
    assert all(check.holds for check in assay.verify_trace(trace, made, segments=1))
    with pytest.raises(assay.JobError, match="out="):
        assay.run_locally(made, keep_states=True)


def test_a_job_in_numbers(made: Path) -> None:
    job = assay.load_job(made).job
    found, expected = assay.inspect_job(job), assay.job_outlook(job, slot_speed=10**6)
    assert found.total_flops == job.total_flops
    assert expected.job > assay.job_outlook(job).job
    assert expected.window >= assay.Params().of(ProofParams).round_window


def test_a_saved_result_is_what_a_command_writes(tmp_path: Path, made: Path) -> None:
    ran = assay.run_locally(made, out=tmp_path)
    result = assay.Result(
        state=ran.state,
        locals=ran.locals,
        root=b"",
        leg=1,
        round=0,
        validator="assay1v",
        position=ran.position,
    )
    digest = result.save(tmp_path / "again.safetensors")
    written = (tmp_path / "again.safetensors").read_bytes()
    assert written == (tmp_path / "model.safetensors").read_bytes()
    assert sha256(written).digest() == digest
    ours, theirs = tmp_path / "again.training", tmp_path / "model.training"
    names = sorted(path.name for path in theirs.iterdir())
    assert [(ours / name).read_bytes() for name in names] == [(theirs / name).read_bytes() for name in names]
    with pytest.raises(assay.ConsumerError, match="choose another file"):
        result.save(tmp_path)


def test_all_errors_are_of_one_family() -> None:
    named = {name for name in origins() if name.endswith("Error") or name == "Refusal"}
    assert len(named) > 3
    for name in named | {"StillWaiting"}:
        assert issubclass(getattr(assay, name), assay.Error), name


NETWORK = [Session, PlacedOrder]


@pytest.mark.parametrize("kind", NETWORK)
def test_what_needs_a_network_shows_how_it_is_called(kind: type) -> None:
    methods = [value for name, value in vars(kind).items() if callable(value) and not name.startswith("_")]
    assert methods
    for shown in (kind, *methods):
        if shown.__name__ != "balance":
            assert "Example::" in str(shown.__doc__), shown


def test_examples_that_need_no_network_run() -> None:
    """All that is public and can be tried without torch."""
    modules = {origin.partition(":")[0] for origin in origins().values()}
    tried = 0
    for name in sorted(modules - {"pol.capture.build", "pol.capture.loading"}):
        failed, count = doctest.testmod(import_module(name))
        assert not failed, name
        tried += count
    assert tried >= 2
