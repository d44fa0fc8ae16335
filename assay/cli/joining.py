"""The steps of ``assay validator join``: from a machine with coins to a validator that is bonded and takes orders.

Each step first looks whether it is done already, so that the same command goes on where an earlier one stopped.
"""

import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from assay.cli.context import CommandContext
from assay.cli.errors import CliError, Interrupted
from assay.cli.node import read_genesis_file, register_beacon_key, write_addresses
from assay.cli.output import flops, money
from domain.amount import ASSAY
from domain.errors import Expected
from host.addresses import HostPort, bare

if TYPE_CHECKING:
    import subprocess

    from chain.app.comet_files import Ports
    from chain.client.client import ChainClient
    from domain.market.records import Offer
    from domain.node.queries import StatusResponse
    from domain.registry.records import Validator
    from validator.daemon import ValidatorConfig
    from wire.keys import Key

STALL_SECONDS = 300.0
"""Longest time without progress, in each step that waits."""
FOLLOWING_SECONDS = 20
"""A node has caught up when its newest block is not older than this."""
FEES = ASSAY
"""Coins that the account must keep for fees, beside stake and bond (uassay)."""
LOOK_SECONDS = 0.5
START_LOG = "start.log"
AGAIN = (
    "the node and the daemon run until Ctrl-C; start both again with the same command, or as services:"
    " `assay node start` and `assay validator run`"
)


@dataclass(frozen=True, slots=True)
class NodeWishes:
    """The node to set up, if the home has none: its name, the chain to join, its peers, and its addresses."""

    moniker: str
    genesis: Path | None
    peers: str
    host: str
    ports: "Ports"


@dataclass(frozen=True, slots=True)
class Promise:
    """FLOP/s of exact work, and bytes/s from other validators, that the validator promises as an auditor."""

    speed: int
    rate: int


@dataclass(frozen=True, slots=True)
class StandingBid:
    """The bid to place, its capacity (FLOPs), and the time until it expires (s)."""

    offer: "Offer"
    capacity: int
    lasts: int


def _pause(stop: Event) -> None:
    """Wait for the next look; raise Interrupted if the user stops the command."""
    if stop.wait(LOOK_SECONDS):
        raise Interrupted("stopped", "run the command again: it goes on where it stopped")


class Joining:
    """One run of the command. It reports each step, and ends the node that it started."""

    def __init__(self, context: CommandContext, key: "Key") -> None:
        self.context = context
        self._key = key
        self._number = 0
        self._node: subprocess.Popen[bytes] | None = None

    def _report(self, step: str, text: str, **values: Any) -> None:
        self._number += 1
        self.context.output.line({"step": step, **values}, f"{self._number}. {step}: {text}")

    # The node

    def make_home(self, wishes: NodeWishes) -> str:
        """Make the home of a node, if there is none, and return the id of its chain."""
        from chain.app.comet_files import read_genesis
        from chain.app.homes import genesis_path, init_node, read_node_table

        home = self.context.home
        path = genesis_path(home)
        is_new = not path.exists()
        if is_new:
            if wishes.genesis is None:
                raise CliError("this home has no chain to join", "give its genesis file: --genesis genesis.json")
            data = read_genesis_file(wishes.genesis)
            init_node(
                home,
                wishes.moniker,
                wishes.ports,
                genesis=data,
                persistent_peers=wishes.peers,
                host=wishes.host,
            )
            write_addresses(home, "127.0.0.1", wishes.ports.grpc)
        # The validator is served by its own node, whatever node other commands ask.
        own = HostPort(bare(str(self.context.setting("node.grpc_host").value)), int(read_node_table(home)["grpc_port"]))
        self.context = replace(self.context, given={**self.context.given, "node_address": str(own.reached)})
        chain_id = read_genesis(path)[0].chain_id
        self._report("home", f"{'made' if is_new else 'kept'} {home}, a node of {chain_id}", home=str(home))
        return chain_id

    def run_node(self, chain_id: str, stop: Event) -> None:
        """Start the home's node, if it does not run, and wait until it has the newest block."""
        from chain.app.node import ready_path
        from host.process import start_child

        log = self.context.home / "node" / "logs" / START_LOG
        runs = ready_path(self.context.home).exists() and self._status() is not None
        if not runs:
            words = ("node", "start", "--home", str(self.context.home))
            self._node = start_child((sys.executable, "-m", "assay.cli", *words), log_path=log)
        told = 0.0
        began = changed = time.monotonic()
        height = 0
        while True:
            status = self._status()
            now = time.monotonic()
            if status is not None:
                if status.chain_id != chain_id:
                    raise CliError(
                        f"the node at {self.context.node} belongs to {status.chain_id}, and this home to {chain_id}",
                        "stop that node, or choose other ports (--grpc-port), and run the command again",
                    )
                if status.height > height:
                    height, changed = status.height, now
                if status.height and time.time() - status.time_ns / 1e9 < FOLLOWING_SECONDS:
                    break
            self.check_node()
            if now - changed > STALL_SECONDS:
                raise CliError(
                    f"the node has no new block since {STALL_SECONDS:.0f} s; it has {height}",
                    f"check --peers, and what {log.parent} says; then run the command again",
                )
            if now - told > 10 and now - began > 5:
                told = now
                self.context.output.note(f"... the node has block {height}")
            _pause(stop)
        how = "runs already" if runs else "is up"
        self._report("node", f"{how} at {self.context.node}, block {height}", node=self.context.node, height=height)

    def check_node(self) -> None:
        """Raise CliError if the node that this command started has ended."""
        if self._node is not None and self._node.poll() is not None:
            log = self.context.home / "node" / "logs" / START_LOG
            lines = log.read_text(errors="replace").splitlines()
            said = f": {lines[-1][:300]}" if lines else ""
            raise CliError(f"the node has ended{said}", f"read {log}, and run the command again")

    def close(self) -> None:
        """End the node, if this command started it."""
        from host.process import stop_child

        if self._node is not None:
            stop_child(self._node, 30.0)

    def _status(self) -> "StatusResponse | None":
        from chain.client.errors import ChainError

        with self.context.client() as client:
            try:
                return client.status()
            except ChainError:
                return None

    # The chain

    def wait_for_coins(self, client: "ChainClient", stake: int, bond: int, stop: Event) -> None:
        """Wait until the account can pay the stake, the bond and fees."""
        from domain.ledger.queries import AccountRequest

        me = self._key.address
        is_validator = self._validator(client) is not None
        told = False
        began = time.monotonic()
        while True:
            found = client.query(AccountRequest(me))
            needed = (0 if is_validator else stake + FEES) + max(0, bond - found.bond.free)
            if found.balance >= needed:
                break
            if not told:
                self.context.output.note(f"... {me} has {money(found.balance)}; send it {money(needed)}")
                told = True
            if time.monotonic() - began > STALL_SECONDS:
                raise CliError(
                    f"{me} has {money(found.balance)}, and needs {money(needed)} for stake, bond and fees",
                    "send it coins, and run the command again",
                )
            self.check_node()
            _pause(stop)
        self._report("coins", f"{me} has {money(found.balance)}", address=me, balance=found.balance)

    def create_validator(self, client: "ChainClient", moniker: str, stake: int, commission: int) -> None:
        """Become a validator with the consensus key of the home, if the account is none."""
        from chain.app.homes import read_home_keys
        from domain.genesis import DENOM
        from domain.ledger.records import Coin
        from domain.staking.messages import KEY_HEAD, KEY_URL, AnyKey, MsgCreateValidator
        from domain.staking.records import ONE, CommissionRates, Description

        cons_key = read_home_keys(self.context.home).cons_key
        known = self._validator(client)
        if known is not None and known.cons_key != cons_key:
            raise CliError(
                f"{self._key.address} is a validator with another consensus key",
                "use the home with that key, or another account (--from)",
            )
        if known is None:
            message = MsgCreateValidator(
                description=Description(moniker),
                commission=CommissionRates(commission, max(commission, ONE // 5), ONE // 100),
                min_self_delegation=ASSAY,
                delegator_address="",
                validator_address=self._key.address,
                pubkey=AnyKey(KEY_URL, KEY_HEAD + cons_key),
                value=Coin(DENOM, stake),
            )
            self.context.sender(client, self._key).send(message)
        how = "is a validator already" if known else f"is a validator with a stake of {money(stake)}"
        self._report("validator", f"{moniker} {how}", operator=self._key.address)

    def register_beacon_key(self, client: "ChainClient") -> None:
        """Register the beacon key of the home, if the chain has none of its keys."""
        from chain.app.beacon_keys import read_beacon_keys
        from chain.app.homes import beacon_keys_path

        known = self._validator(client)
        registered = {each.key for each in known.beacon_keys} if known else set()
        path = beacon_keys_path(self.context.home)
        keys = read_beacon_keys(path)
        mine = [key for key in keys if key.pub_key in registered]
        if not mine:
            mine = list(keys[-1:])
            if not mine:
                raise CliError(f"{path} has no key", "make one: assay node new-beacon-key")
            register_beacon_key(self.context, client, self._key, mine[0])
        shown = mine[-1].pub_key
        self._report("beacon key", f"{shown.hex()}; keep a copy of {path}", beacon_key=shown)

    def has_promised(self, client: "ChainClient") -> bool:
        """Return whether the validator has promised more than the least, which a new one has."""
        known = self._validator(client)
        return known is not None and known.audit_speed > 1

    def deposit_bond(self, client: "ChainClient", bond: int) -> None:
        """Fill the free bond up to ``bond``."""
        from domain.ledger.messages import MsgDepositBond
        from domain.ledger.queries import AccountRequest

        if not bond:
            return
        lacks = bond - client.query(AccountRequest(self._key.address)).bond.free
        if lacks > 0:
            self.context.sender(client, self._key).send(MsgDepositBond(self._key.address, lacks))
        self._report("bond", f"{money(bond)} for the orders that it wins", bond=bond)

    def run_daemon(
        self, config: "ValidatorConfig", stop: Event, promise: Promise | None, bid: StandingBid | None
    ) -> None:
        """Run the validator's daemon until ``stop``; while it runs, send the promise, wait until the validator is
        bonded, and place the bid.
        """
        from validator.daemon import ValidatorDaemon

        daemon = ValidatorDaemon(config, self._key, stop)
        failed: list[Expected] = []

        def finish() -> None:
            try:
                self._finish(config, stop, promise, bid)
                self.context.output.note(AGAIN)
                while not stop.wait(LOOK_SECONDS):
                    self.check_node()
            except Expected as error:
                failed.append(error)
                stop.set()

        thread = Thread(target=finish, name="joining", daemon=True)
        daemon.run(thread.start)
        if thread.is_alive():
            thread.join(STALL_SECONDS)
        if failed:
            raise failed[0]

    def _finish(self, config: "ValidatorConfig", stop: Event, promise: Promise | None, bid: StandingBid | None) -> None:
        from consumer.lookup import backed_bids
        from domain.market.messages import MsgPlaceBid
        from domain.registry.messages import MsgPromiseAudits

        self._report("daemon", f"serves on {config.listen}, published as {config.endpoint}", endpoint=config.endpoint)
        me = self._key.address
        with self.context.client() as client:
            if promise is not None:
                message = MsgPromiseAudits(me, promise.speed, promise.rate)
                self.context.sender(client, self._key).send(message)
            promised = self._validator(client)
            if promised is not None:
                speed, rate = promised.audit_speed, promised.audit_rate
                self._report("promise", f"{flops(speed)}/s and {rate:,} bytes/s for panels", speed=speed, rate=rate)
            if not self.wait_until_bonded(client, stop):
                return
            if bid is not None and any(backed_bids(client, me)):
                self._report("bid", "has one already; change it with `assay bid change`")
            elif bid is not None:
                placed = MsgPlaceBid(validator=me, offer=bid.offer, capacity=bid.capacity, duration=bid.lasts)
                self.context.sender(client, self._key).send(placed)
                self._report("bid", f"{flops(bid.capacity)} at {money(bid.offer.price)} per PFLOP")

    def wait_until_bonded(self, client: "ChainClient", stop: Event) -> bool:
        """Wait until the validator is in the validator set, which it enters when its beacon key is valid.

        Return False if ``stop`` ended the wait. Only validators of the set can place bids.
        """
        from domain.registry.params import RegistryParams

        me = self._key.address
        delay = client.params().of(RegistryParams).beacon_delay
        began = height = client.status().height
        changed = time.monotonic()
        told = False
        while not (record := self._validator(client)) or not record.stake:
            if record is not None and record.beacon_keys and not told:
                told = True
                valid = record.beacon_keys[-1].valid_from
                self.context.output.note(f"... its beacon key is valid from block {valid}; the chain has {height}")
            if stop.wait(LOOK_SECONDS):
                return False
            now = client.status().height
            if now > height:
                height, changed = now, time.monotonic()
            if height - began > delay + 2:
                raise CliError(
                    f"{me} is not in the validator set at height {height}",
                    "see `assay status`: it is jailed, or needs more stake; then run the command again",
                )
            if time.monotonic() - changed > STALL_SECONDS:
                raise CliError(
                    f"the chain has no new block since {STALL_SECONDS:.0f} s; it has {height}",
                    "see `assay status`; when the chain makes blocks again, run the command again",
                )
        self._report("bonded", f"in the validator set with {money(record.stake)}", stake=record.stake)
        return True

    def _validator(self, client: "ChainClient") -> "Validator | None":
        from domain.registry.queries import ValidatorsRequest

        validators = client.query(ValidatorsRequest()).validators
        return next((each for each in validators if each.operator == self._key.address), None)
