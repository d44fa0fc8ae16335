"""A small chain in a folder, and what a provider is asked to do there."""

import json
import os
import sys
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from chain.client.errors import ChainError, ErrorKind
from compute_provider.interfaces import ProviderConfig
from compute_provider.store import MachineSpeed, Store
from compute_provider.work.bench import limits_here, within
from domain import codec
from domain.keys import PanelKey, ShareKey
from domain.ledger.queries import AccountResponse
from domain.ledger.records import Account, BondAccount, Depositor, Escrow
from domain.legs.records import Leg, LegState
from domain.market.records import Conditions, JobTerms, Order, OrderState
from domain.messages import Message
from domain.node.queries import StatusResponse
from domain.params import Params, local_params
from domain.proof.queries import OrderResponse
from domain.proof.records import PanelSeat
from domain.registry.records import Provider, Validator
from host import lock as host_lock
from link.blobs import BlobStore
from link.types import BlobRef, PayloadFile, StateRef, TrainTask
from pol.executor.names import Engine
from pol.state.layout import chunk_lengths
from validator.decide.tasks import sign_task
from wire.keys import Key

CHAIN = "assay-local-test"
PROVIDER = Key(b"\x01" * 32)
VALIDATOR_KEY = Key(b"\x09" * 32)
VALIDATOR = VALIDATOR_KEY.address
ENGINE = Engine("numpy", memory=8 << 30)
CLOCK = 1_000
"""Seconds of the chain's clock."""
TINY = Path(__file__).resolve().parents[2] / "fixtures" / "job_tiny"
ORDER_ID = b"\x11" * 32
PRICE = 10**12


def terms() -> JobTerms:
    """The terms of the tiny job, read as plain JSON: no numerics needed."""
    raw = (TINY / "job.json").read_bytes()
    document = json.loads(raw)
    sizes = {name: path.stat().st_size for name, path in payload_paths().items()}
    return JobTerms(
        job_id=sha256(raw).digest(),
        payload_bytes=sizes["job.json"] + sizes["global.state"] + sizes["local.state"],
        data_bytes=sum(size for name, size in sizes.items() if name.startswith("data/")),
        global_root=bytes.fromhex(document["global_root"]),
        local_root=bytes.fromhex(document["local_root"]),
        data_root=bytes.fromhex(document["data_root"]),
        rounds=document["rounds"],
        slots=document["slots"],
        round_steps=document["round_steps"],
        batch=document["batch"],
        segment_steps=document["segment_steps"],
        step_work=int(document["step_flops"]),
        outer_work=int(document["outer_flops"]),
        global_bytes=sizes["global.state"],
        local_bytes=sizes["local.state"],
        update_bytes=sizes["global.state"],
        global_chunks=document["global_chunks"],
        local_chunks=len(chunk_lengths(*_start_of(TINY / "local.state"))),
        executor_version=document["executor_version"],
    )


def _start_of(path: Path) -> tuple[bytes, int]:
    data = path.read_bytes()
    return data, len(data)


def payload_paths() -> dict[str, Path]:
    names = ["job.json", "global.state", "local.state"]
    names += [f"data/{path.name}" for path in sorted((TINY / "data").iterdir())]
    return {name: TINY / name for name in names}


def order() -> OrderResponse:
    params: Any = None
    from domain.params import local_params

    params = local_params().for_order()
    record = Order(
        id=ORDER_ID,
        consumer="c",
        order_key=b"",
        terms=terms(),
        conditions=Conditions(),
        price_limit=PRICE,
        time_to_live=100,
        deadline=10_000,
        rematch=True,
        state=OrderState.RUNNING,
        legs=1,
        failures=0,
        opened_at=0,
        opened_height=1,
        expires_at=100,
        excluded=(),
        close_reason=0,
        unmatched=(),
        work_verified=0,
        params=params,
    )
    leg = Leg(
        order_id=ORDER_ID,
        number=1,
        bid_id=bytes(32),
        validator=VALIDATOR,
        price=PRICE,
        tier="exact",
        first_round=0,
        rounds=record.terms.rounds,
        first_slot=0,
        slots=record.terms.slots,
        work=1,
        job_bond=1,
        providers_bps=8000,
        slot_speed=10**9,
        slots_at_once=2,
        state=LegState.RUNNING,
        end_reason=0,
        matched_at=0,
        accept_deadline=0,
        progress_deadline=0,
        round=0,
        verified=0,
        void=0,
        initial_root=record.terms.global_root,
        global_in=record.terms.global_root,
        settles_at=0,
    )
    escrow = Escrow(ORDER_ID, (Depositor("c", 10**15, 0, 0),), ())
    return OrderResponse(record, (leg,), (), (), (), (), escrow, ())


def blob_of(path: Path) -> BlobRef:
    data = path.read_bytes()
    return BlobRef(sha256(data).digest(), len(data))


def task(slot: int = 0, seconds_left: int = 600) -> TrainTask:
    known = terms()
    files = tuple(PayloadFile(name, blob_of(path)) for name, path in payload_paths().items())
    made = TrainTask(
        key=ShareKey(ORDER_ID, 1, 0, slot, 1),
        global_in=StateRef(known.global_root, blob_of(TINY / "global.state")),
        local_in=StateRef(known.local_root, blob_of(TINY / "local.state")),
        payload=files,
        seconds_left=seconds_left,
        deadline=CLOCK + seconds_left,
    )
    return signed(made)


def signed(made: TrainTask, by: Key = VALIDATOR_KEY, chain_id: str = CHAIN) -> TrainTask:
    """Return a task as a validator gives it to the provider."""
    return sign_task(made, PROVIDER.address, chain_id, by.sign)


def give_payload(blobs: BlobStore) -> None:
    for path in payload_paths().values():
        blobs.add(path.read_bytes())


@dataclass
class FolderChain:
    """A chain whose state is files in a folder, so that several processes can share it."""

    folder: Path

    def write(self, order: OrderResponse, validator: Validator | None = None) -> None:
        self._replace("order.json", codec.encode(order))
        if validator is not None:
            self._replace("validator.json", codec.encode(validator))

    def _replace(self, name: str, data: bytes) -> None:
        partial = self.folder / (name + ".new")
        partial.write_bytes(data)
        partial.replace(self.folder / name)

    def status(self) -> StatusResponse:
        return StatusResponse(CHAIN, 1, 0, 1_000, 1, b"", False, 1_000)

    def order(self, order_id: bytes) -> OrderResponse:
        known = codec.decode(OrderResponse, (self.folder / "order.json").read_bytes())
        if order_id != known.order.id:
            raise ChainError(ErrorKind.NOT_FOUND, "no such order", "")
        return known

    def seats(self, panel: PanelKey) -> tuple[PanelSeat, ...]:
        return ()

    def params(self) -> Params:
        return local_params()

    def account(self, address: str) -> AccountResponse:
        key = VALIDATOR_KEY if address == VALIDATOR else PROVIDER
        account = Account(address, 1, 0, key.pub_key)
        return AccountResponse(account, 10**15, BondAccount(address, 0, ()))

    def has_credential(self, owner: str) -> bool:
        return False

    def count_validators(self) -> int:
        return 4

    def validator(self, operator: str) -> Validator | None:
        known = codec.decode(Validator, (self.folder / "validator.json").read_bytes())
        return known if known.operator == operator else None

    def provider(self, address: str) -> Provider | None:
        if not (self.folder / "registered").exists():
            return None
        return Provider(address, VALIDATOR, PROVIDER.pub_key, None, 0, 0)

    # The sender

    def send(self, *messages: Message, in_lane: bool = False) -> None:
        for message in messages:
            name = type(message).__name__
            if name == "MsgRegisterProvider":
                (self.folder / "registered").touch()
            with (self.folder / "sent").open("a") as file:
                file.write(name + "\n")

    def sent(self) -> list[str]:
        path = self.folder / "sent"
        return path.read_text().split() if path.exists() else []


def validator_record(endpoint: str, certificate: bytes) -> Validator:
    return Validator(
        operator=VALIDATOR,
        moniker="v",
        cons_key=bytes(32),
        cons_address=bytes(20),
        stake=1,
        jailed=False,
        endpoint=endpoint,
        certificate=certificate,
        orders_settled=0,
        legs_failed=0,
        audits_answered=0,
        audits_missed=0,
    )


def config(home: Path) -> ProviderConfig:
    """A provider that does not measure itself, which takes a second."""
    home.mkdir(exist_ok=True)
    store = Store(home)
    computing = within("numpy", limits_here())
    store.put_measured(ENGINE, MachineSpeed(10**9, 1 << 30, at=10**11, computing=computing))
    store.close()
    return ProviderConfig(home, "", VALIDATOR, PROVIDER, ENGINE, poll_seconds=0.02, chain_seconds=0.05)


def main() -> None:
    """Run a daemon as a process of its own: HOME and the chain's folder."""
    import signal
    from threading import Event

    from compute_provider.daemon import Daemon

    host_lock.NAMESPACE = f"assay-test-{os.getppid()}"
    home, folder = Path(sys.argv[1]), Path(sys.argv[2])
    stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    chain = FolderChain(folder)
    Daemon(config(home), CHAIN, chain, chain, stop=stop).run()
    sys.stdout.write(json.dumps(sorted({"numpy", "torch"} & sys.modules.keys())))


def with_leg(response: OrderResponse, **changes: Any) -> OrderResponse:
    (leg,) = response.legs
    return replace(response, legs=(replace(leg, **changes),))


def with_order(response: OrderResponse, **changes: Any) -> OrderResponse:
    return replace(response, order=replace(response.order, **changes))


if __name__ == "__main__":
    main()


# What a daemon writes into its status file.
STATUS: dict[str, Any] = {
    "provider": "assay1p",
    "validator": "assay1v",
    "node": "127.0.0.1:9",
    "joined": True,
    "admitted": True,
    "speed": 9,
    "newcomer": False,
    "note": "",
    "shares": [],
    "orders": [],
    "earned": 12_345,
    "workers": [],
    "computing": "native avx2",
}
