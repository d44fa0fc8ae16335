"""A small chain in real bytes on which everybody sends messages of every kind, for tests of whole applications."""

from collections.abc import Sequence
from random import Random

from chain.app.application import Application
from chain.state_machine.gas import gas_of
from chain.state_machine.ledger.queries import get_account
from chain.state_machine.store import Overlay
from domain.block import Misbehaviour, MisbehaviourKind, Vote
from domain.errors import Refusal
from domain.genesis import DENOM
from domain.ledger.records import Coin
from domain.messages import Message, signer_of
from tests.support.operations import Operations
from tests.support.small_chain import CHAIN_ID, COINS, GENESIS_TIME_NS, beacon_key, cons_address, genesis, key
from wire.tx import build_tx, decode_tx

ACCOUNTS, VALIDATORS = 8, 3
GENESIS = genesis(ACCOUNTS, VALIDATORS)
KEYS = {key(number).address: key(number) for number in range(ACCOUNTS + 2)}  # two have no account at first
BEACON_KEYS = [beacon_key(number) for number in range(VALIDATORS)]
GAS_ROOM = 500_000
SECOND = 10**9


class BusyChain:
    """Makes blocks of random transactions for an application, which proposes, checks and executes them."""

    def __init__(self, app: Application, seed: int) -> None:
        """Start the chain, if the application has none yet."""
        self.app = app
        self.random = Random(seed)
        self.operations = Operations(self.random, tuple(KEYS), [one.pub_key for one in KEYS.values()])
        if not app.head.block.height:
            app.init_chain(GENESIS, GENESIS_TIME_NS)

    @property
    def height(self) -> int:
        """The height of the next block."""
        return self.app.head.block.height + 1

    @property
    def time_ns(self) -> int:
        """The time of the next block."""
        return GENESIS_TIME_NS + self.height * 5 * SECOND

    def txs(self, count: int) -> list[bytes]:
        """Return transactions, some of which are not right, and bytes that are none."""
        store = Overlay(self.app.view().reader)
        self.operations.look(store, self.time_ns)
        used: dict[str, int] = {}
        raws = []
        for _ in range(count):
            message = self.operations.message()
            name = signer_of(message)
            account = get_account(store, name)
            number, at = (account.number, account.sequence) if account else (0, 0)
            at = used.get(name, at)
            try:
                raw = self._tx(message, number, at)
                decode_tx(raw)
                used[name] = at + 1
            except Refusal:
                continue  # its fields cannot be written, or show alone that it is wrong
            raws.append(self._bent(raw) if self.random.random() < 0.1 else raw)
        return raws

    def _tx(self, message: Message, number: int, sequence: int) -> bytes:
        signer = KEYS[signer_of(message)]
        messages = [message]
        draft = build_tx(messages, signer, chain_id=CHAIN_ID, account_number=number, sequence=sequence, gas_limit=1)
        gas = gas_of(decode_tx(draft)) + GAS_ROOM
        fee = (Coin(DENOM, gas),)
        return build_tx(
            messages, signer, chain_id=CHAIN_ID, account_number=number, sequence=sequence, fee=fee, gas_limit=gas
        )

    def _bent(self, raw: bytes) -> bytes:
        at = self.random.randrange(len(raw))
        return self.random.choice(
            (raw[:at], raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :], self.random.randbytes(at), raw + raw)
        )

    def proposer(self) -> bytes:
        """Return the address of a validator of the genesis."""
        return cons_address(self.random.randrange(VALIDATORS))

    def decide(self, raws: Sequence[bytes]) -> tuple[bytes, list[bytes]]:
        """Return a proposer, and the block that it proposes; some transactions come that no honest proposer takes."""
        proposer = self.proposer()
        proposed = self.app.prepare_proposal(raws, 10**6, self.height, proposer)
        assert self.app.process_proposal(proposed, self.height, proposer)
        bad = [raw for raw in raws if raw not in proposed]
        return proposer, proposed + bad[:2]

    def block(self, count: int) -> int:
        """Make a block of so many transactions, and return how many succeeded."""
        raws = self.txs(count)
        for raw in raws:
            self.app.check_tx(raw)
        proposer, items = self.decide(raws)
        done = self.app.finalize_block(
            self.height,
            self.time_ns,
            self.random.randbytes(32),
            proposer,
            items,
            votes=self.votes(),
            misbehaviours=self.misbehaviours(),
        )
        self.app.commit()
        return sum(not result.code for result in done.result.tx_results)

    def votes(self) -> tuple[Vote, ...]:
        """Return the votes of the genesis's validators: the last one is often away."""
        if self.height == 1:
            return ()
        last = VALIDATORS - 1
        return tuple(
            Vote(cons_address(number), 5, signed=number < last or self.random.random() < 0.3)
            for number in range(VALIDATORS)
        )

    def misbehaviours(self) -> tuple[Misbehaviour, ...]:
        """Return evidence against a validator, now and then."""
        if self.height < 3 or self.random.random() > 0.1:
            return ()
        address = cons_address(self.random.randrange(VALIDATORS))
        return (Misbehaviour(MisbehaviourKind.DUPLICATE_VOTE, address, self.height - 2, self.time_ns, 5),)


__all__ = ["BEACON_KEYS", "COINS", "GENESIS", "BusyChain"]
