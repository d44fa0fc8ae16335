"""What a process runs in a copy of the tree to which the component of docs/architecture.md was added."""

import json
import sys
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from chain.app.application import AppConfig, Application
from chain.app.beacon_keys import BeaconKeys
from chain.app.comet_files import HomeError, genesis_document, read_genesis
from chain.app.services.table import Services
from chain.app.solo import SoloEngine
from chain.app.storage import Storage
from chain.state_machine.components import COMPONENTS
from chain.state_machine.invariant import InvariantBroken
from chain.state_machine.ledger.tables import POTS
from chain.state_machine.rules import RULES
from chain.state_machine.store import Overlay
from domain.codec import decode, encode, to_plain
from domain.errors import LIMIT_REACHED, UNAUTHORIZED, Refusal
from domain.genesis import GENESIS
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from domain.node.queries import ParamsRequest
from domain.params import local_params, read_params
from domain.vocabulary import read_event
from localnet.simulator.rebuilt.books import take
from tests.lint.test_components import misplaced
from tests.support.chain_harness import Chain, make_genesis
from tests.support.small_chain import CHAIN_ID, FEE, GAS, GENESIS_TIME_NS, beacon_key, genesis, key
from wire.queries import METHODS, decode_response, encode_request, method_of
from wire.tx import build_tx

messages: Any = import_module("domain.greetings.messages")
moves: Any = import_module("domain.greetings.moves")
queries: Any = import_module("domain.greetings.queries")
records: Any = import_module("domain.greetings.records")
events: Any = import_module("domain.greetings.events")
tables: Any = import_module("chain.state_machine.greetings.tables")

PATH = "/assay.greetings.v1.Query/Greeting"


def with_greetings(base: Any, most: int = 2) -> Any:
    """Return a genesis with the part of the new component."""
    known = {field.name: getattr(base, field.name) for field in fields(base)}
    cls: Any = GENESIS
    return cls(**known, greetings=records.GreetingsGenesis(most))


def check_genesis_file(folder: Path) -> Any:
    """The genesis file has the part and the parameters under the component's name, within their bounds."""
    base = genesis()
    made = with_greetings(replace(base, params=base.params.replace(kept_seconds=7)))
    path = folder / "genesis.json"
    path.write_bytes(genesis_document(made, GENESIS_TIME_NS, 1))
    document = json.loads(path.read_text())
    assert document["app_state"]["greetings"] == {"most": 2}
    assert document["app_state"]["params"]["greetings"] == {"kept_seconds": 7}
    assert read_genesis(path) == (made, GENESIS_TIME_NS)
    assert decode(GENESIS, encode(made)) == made
    for broken in ({"most": 0}, {}, None):
        document["app_state"]["greetings"] = broken
        path.write_text(json.dumps(document))
        with pytest.raises(HomeError, match="greetings"):
            read_genesis(path)
    document["app_state"]["greetings"] = {"most": 2}
    document["app_state"]["params"]["greetings"] = {"kept_seconds": 0}
    path.write_text(json.dumps(document))
    with pytest.raises(HomeError, match=r"params\.greetings\.kept_seconds"):
        read_genesis(path)
    return made


def greet(sequence: int, text: str) -> bytes:
    return build_tx(
        (messages.MsgGreet(key(1).address, text),),
        key(1),
        chain_id=CHAIN_ID,
        account_number=1,
        sequence=sequence,
        fee=(Coin("uassay", FEE),),
        gas_limit=GAS,
    )


def check_node(folder: Path, made: Any) -> None:
    """A node takes the message, puts it into a block, tells of it, and answers the query."""
    storage = Storage(folder / "db")
    app = Application(storage, AppConfig(solo=True), beacon_keys=BeaconKeys([beacon_key(0)]))
    engine = SoloEngine(app, made, genesis_time_ns=GENESIS_TIME_NS)
    asked = encode_request(queries.GreetingRequest(key(1).address))
    method = METHODS[PATH]

    def ask() -> Any:
        return decode_response(method, Services(app).call(PATH, asked).data).greeting

    assert ask() is None
    with pytest.raises(Refusal, match="text: has 10000 bytes"):
        greet(0, "x" * 10_000)
    for sequence, text in enumerate(("hello", "again")):
        assert engine.broadcast_sync(greet(sequence, text)).code == 0
        (_, result) = engine.make_block().result.tx_results
        assert result.code == 0, result.log
        told = [read_event(event) for event in result.events]
        assert events.Greeted(key(1).address, text, sequence + 1) in told
    assert ask() == records.Greeting(key(1).address, "again", 2)
    assert engine.broadcast_sync(greet(2, "once more")).code == 0
    (_, result) = engine.make_block().result.tx_results
    assert (result.codespace, result.code) == (LIMIT_REACHED.space, LIMIT_REACHED.number)
    everything = method_of(ParamsRequest())
    answer = Services(app).call(everything.path, encode_request(ParamsRequest())).data
    shown = read_params(decode_response(everything, answer))
    assert shown == made.params
    assert to_plain(shown)["greetings"] == {"kept_seconds": 7}
    assert app.head.block.app_hash != bytes(32)
    storage.close()


def check_machine() -> None:
    """A pledge lies in the pot until the queue forgets the greeting; invariants ring when they are broken."""
    pot = moves.PLEDGES_POT
    take.register(events.Greeted, lambda change, books: None)
    kept = to_plain(local_params())["greetings"]["kept_seconds"]
    assert kept == 3_600
    params = local_params().replace(clock_step_max=4_000)
    chain = Chain(with_greetings(make_genesis(("alice",), ("v0",), params)))
    before = chain.balance("alice")
    chain.ok(messages.MsgGreet("alice", "hello"))
    assert POTS.get(chain.overlay(), "greetings") == 1_000
    assert chain.balance("alice") <= before - 1_000
    chain.refused(UNAUTHORIZED, MsgSend("alice", pot.address, (Coin("uassay", 1),)))
    held = chain.balance("alice")
    assert chain.ask(queries.GreetingRequest("alice")).greeting.number == 1
    chain.pass_time(kept - 60)
    assert chain.ask(queries.GreetingRequest("alice")).greeting is not None
    chain.pass_time(60)
    assert chain.ask(queries.GreetingRequest("alice")).greeting is None
    assert POTS.get(chain.overlay(), "greetings") == 0
    assert chain.balance("alice") == held + 1_000
    chain.change(lambda store: tables.LEFT.set(store, 7))
    with pytest.raises(InvariantBroken, match="greetings are counted wrong"):
        chain.check_state()
    chain.change(lambda store: tables.LEFT.set(store, 0))
    chain.change(take_from_community)
    with pytest.raises(InvariantBroken, match="greetings hold 0, but 1 were counted"):
        chain.check_state()


def take_from_community(store: Overlay) -> None:
    """Count a coin of the community pool as one of the pledges."""
    POTS.set(store, POTS.get(store, "community") - 1, "community")
    POTS.set(store, 1, "greetings")


def main(folder: Path) -> None:
    assert [component.name for component in RULES.components][-1] == "greetings"
    assert misplaced(component.name for component in COMPONENTS) == []
    check_node(folder, check_genesis_file(folder))
    check_machine()
    sys.stdout.write("the component works\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
