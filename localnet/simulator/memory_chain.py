"""A chain in memory: blocks of messages, chosen times, values and proposers, and all invariants after each block.

Signatures are hashes: :func:`sign` alone decides which are right, so that thousands of blocks per second are possible.
So are reveals, whose value the caller may choose, and with it the beacon. Addresses are readable names, because nothing
behind the decoder looks at their form.
"""

from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from typing import Any

from chain.state_machine import queries
from chain.state_machine.attest.tables import ATTEST_POLICIES, ATTEST_SEATS, ATTESTATIONS, BEACONS, CREDENTIALS
from chain.state_machine.context import HEAD, NS, PARAMS, NodeMemory
from chain.state_machine.distribution.tables import REWARDS
from chain.state_machine.gas import gas_of
from chain.state_machine.gov.tables import DEPOSITS, PROPOSALS, VOTED_SHARES, VOTES
from chain.state_machine.ledger.queries import get_account, get_balance
from chain.state_machine.ledger.tables import ACCOUNTS, BOND_ACCOUNTS, BOND_ROWS, ESCROWS, PAYMENTS
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.book import LivingBook, book_step, get_standing, version_of
from chain.state_machine.market.tables import BIDS, ORDERS
from chain.state_machine.mempool import simulate_tx
from chain.state_machine.proof.tables import DELIVERIES, PANELS, ROUNDS, SHARES
from chain.state_machine.registry.tables import PROVIDERS, VALIDATORS
from chain.state_machine.rules import RULEBOOK, RULES, Rulebook
from chain.state_machine.slashing.tables import EVIDENCE, SIGNING_INFOS
from chain.state_machine.staking.tables import (
    DELEGATIONS,
    REDELEGATIONS,
    UNBONDING_POOLS,
    UNBONDINGS,
    VALIDATOR_STAKES,
)
from chain.state_machine.store import MemoryStore, Overlay, Reader
from chain.state_machine.tables import Table
from chain.state_machine.transition import apply_block, init_chain
from domain.amount import ceil_div
from domain.beacon import Reveal, reveal_message
from domain.block import Block, BlockResult, Misbehaviour, TxResult, ValidatorUpdate, Vote
from domain.bounds import check as check_record
from domain.crypto import Crypto
from domain.distribution.events import CommissionWithdrawn, RewardsWithdrawn
from domain.errors import Refusal
from domain.events import Event
from domain.genesis import DENOM, Genesis, GenesisAccount, GenesisValidator
from domain.hashing import message_id
from domain.ledger.queries import AccountRequest
from domain.ledger.records import Account, Coin
from domain.market.messages import MsgSubmitOrder
from domain.messages import Message, signer_of
from domain.node.queries import StatusRequest
from domain.params import Params, local_params
from domain.tx import SignerInfo, Tx, sign_doc
from localnet.simulator.rebuilt.books import Rebuilt
from localnet.simulator.rebuilt.compare import check_books, check_changed
from localnet.simulator.rebuilt.follow import follow
from localnet.simulator.rechecks import Rechecks
from pol.rules.commitment import possession_sign_bytes
from wire import cipher, dleq
from wire.vrf import is_point

PUBLIC: tuple[Table[Any], ...] = (
    ACCOUNTS,
    BOND_ACCOUNTS,
    VALIDATORS,
    PROVIDERS,
    BIDS,
    ORDERS,
    LEGS,
    SHARES,
    DELIVERIES,
    ROUNDS,
    PANELS,
    ESCROWS,
    PAYMENTS,
    BOND_ROWS,
    VALIDATOR_STAKES,
    REWARDS,
    DELEGATIONS,
    UNBONDING_POOLS,
    UNBONDINGS,
    REDELEGATIONS,
    SIGNING_INFOS,
    EVIDENCE,
    ATTEST_POLICIES,
    BEACONS,
    ATTESTATIONS,
    ATTEST_SEATS,
    CREDENTIALS,
    PROPOSALS,
    DEPOSITS,
    VOTES,
    VOTED_SHARES,
)
CHAIN_ID = "assay-test"
GENESIS_TIME = 1_700_000_000 * NS
COINS = 10**12
STAKE = 10**10
GAS_ROOM = 2_000_000


def digest(*parts: object) -> bytes:
    """Return 32 bytes that stand for something."""
    return sha256(repr(parts).encode()).digest()


def pub_key(address: str) -> bytes:
    """Return the public key of an address: made up, but always the same."""
    return b"\x02" + sha256(b"key " + address.encode()).digest()


def sign(key: bytes, message: bytes) -> bytes:
    """Return the signature that :class:`HashCrypto` accepts."""
    return sha256(key + message).digest() * 2


class HashCrypto:
    """The crypto of this chain: what :func:`sign` and :func:`prove` return is right; proofs about chunks are real."""

    def signature(self, key: bytes, message: bytes, signature: bytes) -> bool:
        return signature == sign(key, message)

    def reveal(self, key: bytes, message: bytes, proof: bytes) -> bool:
        return proof == prove(key, message, proof[:33])

    def is_point(self, encoded: bytes) -> bool:
        return is_point(encoded)

    def chunk_proof(self, key: bytes, point: bytes, shared: bytes, message: bytes, proof: bytes) -> bool:
        return dleq.verify(key, point, shared, proof, message)

    def decrypt(self, key: bytes, ciphertext: bytes) -> bytes | None:
        return cipher.decrypt(key, ciphertext)


CRYPTO = HashCrypto()


def beacon_key(operator: str) -> bytes:
    """Return the beacon key that a validator has at first."""
    return pub_key("beacon of " + operator)


def prove(key: bytes, message: bytes, value: bytes) -> bytes:
    """Return the proof that :class:`HashCrypto` accepts, for any value of 33 bytes."""
    return value + sign(key, message + value)


def cons_key(operator: str) -> bytes:
    """Return the consensus key of a validator."""
    return sha256(b"consensus " + operator.encode()).digest()


def cons_address(operator: str) -> bytes:
    """Return the address of a validator's consensus key."""
    return sha256(cons_key(operator)).digest()[:20]


def make_genesis(
    accounts: tuple[str, ...],
    validators: tuple[str, ...],
    params: Params | None = None,
    coins: int = COINS,
    stake: int = STAKE,
) -> Genesis:
    """Return a genesis in which every account (operators too) has the same coins, every validator the same stake."""
    return Genesis(
        chain_id=CHAIN_ID,
        denom=DENOM,
        params=params or local_params(),
        accounts=tuple(GenesisAccount(name, (Coin(DENOM, coins),)) for name in (*accounts, *validators)),
        validators=tuple(
            GenesisValidator(
                operator=name,
                moniker=name,
                cons_key=cons_key(name),
                beacon_key=beacon_key(name),
                stake=stake,
                endpoint=f"{name}:7430",
                certificate=b"certificate",
                audit_speed=10**10,
                audit_rate=10**9,
            )
            for name in validators
        ),
    )


def enough_gas(tx: Tx) -> int:
    """Return the gas that a transaction needs, with room for what its messages find in the state."""
    handlers = [RULES.handlers.get(type(message)) for message in tx.messages]
    finds = any(handler is not None and handler.weight is not None for handler in handlers)
    return gas_of(tx) + (GAS_ROOM if finds else 0)


def check_bounds(store: Reader) -> None:
    """Check that every record that others may read is within the bounds of its type."""
    overlay = Overlay(store)
    check_record(PARAMS.get(overlay))
    for table in PUBLIC:
        for record in table.scan(overlay):
            check_record(record)


UNPROVEN = bytes(63) + b"\x01"
"""The proof of an order's key that is not made yet, because it is not known in which transaction it will be."""


def prove_key(message: Message, sequence: int, index: int) -> Message:
    """Return an order with the proof of its key where that is left to be made; any other message as it is."""
    if not isinstance(message, MsgSubmitOrder) or message.key_proof != UNPROVEN:
        return message
    order_id = message_id("order", CHAIN_ID, message.consumer, sequence, index)
    key = message.order_key
    return replace(message, key_proof=sign(key, possession_sign_bytes(order_id, key)))


def _update_set(powers: dict[bytes, int], updates: Iterable[ValidatorUpdate]) -> dict[bytes, int]:
    """Return the powers of a validator set after changes."""
    changed = powers | {update.cons_key: update.power for update in updates}
    return {key: power for key, power in changed.items() if power}


class MemoryChain:
    """A chain in memory. ``block`` makes one block and commits it; ``checked`` runs all invariants after each."""

    def __init__(self, genesis: Genesis, *, checked: bool = True, rulebook: Rulebook = RULEBOOK) -> None:
        self.genesis = genesis
        self.rulebook = rulebook
        self.crypto: Crypto = CRYPTO
        self.checked = checked
        self.rechecks = Rechecks()
        self.store: Any = self.make_store()
        self.book = LivingBook()
        self.time_ns = GENESIS_TIME
        self.height = 0
        self.operators = tuple(validator.operator for validator in genesis.validators)
        self.events: list[Event] = []  # all numbered events
        self.books = Rebuilt(genesis)  # what these alone tell
        self.last: BlockResult | None = None
        self.last_block: Block | None = None
        self.reveal_result: TxResult | None = None
        self.fees: dict[str, int] = {}  # paid by each account
        self.rewards: dict[str, int] = {}  # paid to each account
        overlay = Overlay(self.store)
        self.first_validators = init_chain(overlay, genesis, self.time_ns, rulebook)
        self.commit(overlay)
        # Power by consensus key in the sets of the last block, the next one, and the one after it.
        first = _update_set({}, self.first_validators)
        self.sets: tuple[dict[bytes, int], ...] = ({}, first, first)
        self.away: set[str] = set()  # operators whose validators do not vote

    def make_store(self) -> Reader:
        """Return where the committed state lies, with what ``commit`` needs."""
        return MemoryStore()

    def commit(self, overlay: Overlay) -> Iterable[bytes]:
        """Write the changes of a block, and return the keys that changed."""
        changes = overlay.changes()
        self.store.apply(changes)
        self.rechecks.note(changes)
        return changes

    def tx(
        self,
        *messages: Message,
        sequence: int | None = None,
        signer: str | None = None,
        fee: int | None = None,
        gas_limit: int | None = None,
        memo: str = "",
        timeout_height: int = 0,
        size: int = 300,
        granter: str = "",
    ) -> Tx:
        """Return a signed transaction of the messages' signer; with ``sequence`` left out, for the next block.

        ``granter`` is the account whose coins pay the fee.
        """
        address = signer or signer_of(messages[0])
        account = self.account(address)
        number, current = (account.number, account.sequence) if account else (0, 0)
        at = current if sequence is None else sequence
        messages = tuple(prove_key(message, at, index) for index, message in enumerate(messages))
        body = sha256(repr((messages, memo, timeout_height)).encode()).digest()
        auth = sha256(repr((address, at, fee, gas_limit, granter)).encode()).digest()
        signature = sign(pub_key(address), sign_doc(body, auth, CHAIN_ID, number))
        tx = Tx(
            hash=sha256(body + auth).digest(),
            size=size,
            body=body,
            auth_info=auth,
            messages=messages,
            memo=memo,
            timeout_height=timeout_height,
            signers=(SignerInfo(pub_key=pub_key(address), address=address, sequence=at, signature=signature),),
            fee=(),
            gas_limit=0,
            fee_payer="",
            fee_granter=granter,
        )
        gas = enough_gas(tx) if gas_limit is None else gas_limit
        price = self.ask(StatusRequest()).gas_price_millionths
        amount = ceil_div(gas * price, 1_000_000) if fee is None else fee
        return replace(tx, gas_limit=gas, fee=(Coin(DENOM, amount),) if amount else ())

    def block(
        self,
        *items: Message | Tx | Refusal,
        seconds: int = 1,
        proposer: str | None = None,
        block_hash: bytes | None = None,
        value: bytes | None = None,
        reveals: bool = True,
        reveal: Reveal | None = None,
        misbehaviours: tuple[Misbehaviour, ...] = (),
    ) -> BlockResult:
        """Make a block of transactions (a message becomes one) ``seconds`` after the last one, and commit it.

        Its proposer reveals ``value`` (33 bytes) or one of the height, unless it has no key that counts or ``reveals``
        is off; ``reveal`` takes the place of that. The result is of the transactions alone; that of the reveal is
        :attr:`reveal_result`.
        """
        self.height += 1
        self.time_ns += seconds * NS
        operator = proposer or self.operators[self.height % len(self.operators)]
        block = Block(
            height=self.height,
            time_ns=self.time_ns,
            hash=block_hash or sha256(b"block %d" % self.height).digest(),
            proposer=cons_address(operator),
            txs=tuple(self._txs(items)),
            reveal=reveal or (self.reveal(operator, value) if reveals else None),
            votes=self.votes(),
            misbehaviours=misbehaviours,
        )
        overlay = Overlay(self.store)
        result = apply_block(overlay, block, self.crypto, NodeMemory(self.book), self.rulebook)
        _, last, upcoming = self.sets
        self.sets = last, upcoming, _update_set(upcoming, result.validator_updates)
        self.reveal_result = None
        if block.reveal is not None:
            self.reveal_result, *results = result.tx_results
            result = replace(result, tx_results=tuple(results))
        before = version_of(self.store)
        changed = list(self.commit(overlay))
        self.book.follow(book_step(before, version_of(self.store), changed))
        found = [*(e for tx in result.tx_results for e in tx.events), *result.events]
        told = sorted(found, key=lambda event: event.number)
        self.events += [event for event in told if event.number]
        follow(self.books, told)
        self.last, self.last_block = result, block
        for tx in result.tx_results:
            self._book_fee(tx)
        self.book_rewards(told)
        if self.checked:
            check_changed(self.books, self.overlay(), changed)
            self.check_state()
            standing = self.book.at(self.overlay(), version_of(self.store)).standing()
            assert standing == get_standing(self.overlay())
        return result

    def votes(self) -> tuple[Vote, ...]:
        """Return the votes for the last block: its validator set has signed it, except those that are away."""
        away = {cons_address(operator) for operator in self.away}
        addresses = ((sha256(key).digest()[:20], power) for key, power in self.sets[0].items())
        return tuple(Vote(address, power, signed=address not in away) for address, power in addresses)

    def check_state(self) -> None:
        """Check the invariants over the committed state, except those that held of all that they read."""
        store = self.overlay()
        self.rechecks.check_all(store, self.rulebook.at(store, self.height))

    def check_books(self) -> None:
        """Check that the events alone tell all that the state has."""
        check_books(self.books, self.overlay())

    def reveal(self, operator: str, value: bytes | None = None) -> Reveal | None:
        """Return what a block of this height begins with, from its proposer's key; None where none counts."""
        key = VALIDATORS.must(self.overlay(), operator).beacon_key(self.height)
        if not key:
            return None
        message = reveal_message(CHAIN_ID, self.height, self.beacon)
        proof = prove(key, message, value or self.value(self.height))
        return Reveal(sha256(proof).digest(), proof)

    @staticmethod
    def value(number: int) -> bytes:
        """Return a value for a reveal."""
        return b"\x02" + sha256(b"value %d" % number).digest()

    @property
    def beacon(self) -> bytes:
        """The beacon of the last block."""
        return HEAD.must(self.overlay()).beacon

    def _book_fee(self, result: TxResult) -> None:
        for event in result.events:
            if event.type == "tx" and event.get("fee"):
                payer = event.get("fee_payer")
                self.fees[payer] = self.fees.get(payer, 0) + int(event.get("fee").removesuffix(DENOM))
            elif event.type == "share.skipped":
                (sender,) = [other.get("sender") for other in result.events if other.type == "message"][:1]
                self.fees[sender] = self.fees.get(sender, 0) + int(event.get("fee"))

    def book_rewards(self, told: Iterable[Event]) -> None:
        """Count the rewards and commissions that events tell of."""
        for event in told:
            if event.type in (RewardsWithdrawn.KIND, CommissionWithdrawn.KIND):
                to = event.get("to")
                self.rewards[to] = self.rewards.get(to, 0) + int(event.get("amount"))

    def worth(self, address: str) -> int:
        """Return the balance as it would be without transaction fees, and without the rewards that come from them."""
        return self.balance(address) + self.fees.get(address, 0) - self.rewards.get(address, 0)

    def _txs(self, items: tuple[Message | Tx | Refusal, ...]) -> list[Tx | Refusal]:
        """Make a transaction of every message; those of one account get sequences one after the other."""
        used: dict[str, int] = {}
        txs: list[Tx | Refusal] = []
        for item in items:
            if isinstance(item, Tx | Refusal):
                txs.append(item)
                continue
            address = signer_of(item)
            account = self.account(address)
            sequence = used.get(address, account.sequence if account else 0)
            used[address] = sequence + 1
            txs.append(self.tx(item, sequence=sequence))
        return txs

    def simulate(self, tx: Tx) -> TxResult:
        return simulate_tx(self.store, tx, self.crypto, self.rulebook)

    @property
    def clock(self) -> int:
        clock: int = self.ask(StatusRequest()).clock
        return clock

    def overlay(self) -> Overlay:
        return Overlay(self.store)

    def sequence(self, address: str) -> int:
        """Return the sequence of an account's next transaction."""
        account = self.account(address)
        return account.sequence if account else 0

    def account(self, address: str) -> Account | None:
        return get_account(self.store, address)

    def balance(self, address: str) -> int:
        return get_balance(self.store, address, DENOM)

    def bond(self, address: str) -> int:
        """Return the free coins of a bond account."""
        free: int = self.ask(AccountRequest(address)).bond.free
        return free

    def ask(self, request: Any) -> Any:
        return queries.answer(self.store, request, self.rulebook)

    def seen(self, kind: str) -> list[Event]:
        """Return all numbered events of a type."""
        return [event for event in self.events if event.type == kind]
