"""Checks of transactions before they are in a block, for the mempool and for simulations."""

from functools import lru_cache

from chain.state_machine.context import HEAD, NEXT_EVENT, NS, PARAMS, BlockInfo, Context
from chain.state_machine.gas import gas_of, out_of_gas
from chain.state_machine.lane import Lane
from chain.state_machine.rules import RULEBOOK, Rulebook, Rules
from chain.state_machine.store import Overlay, Reader
from chain.state_machine.transition import apply_messages, check_stateless, refused
from domain.block import TxResult
from domain.crypto import Crypto
from domain.errors import MEMPOOL_FULL, Refusal
from domain.limits import MEMPOOL_BYTES_MAX, MEMPOOL_TXS_MAX
from domain.node.params import NodeParams, tx_gas_max
from domain.tx import Tx


class Mempool:
    """The mempool's checks on top of a committed state.

    Fees and sequences are stored in an overlay that is never committed.
    """

    def __init__(
        self,
        base: Reader,
        crypto: Crypto,
        rulebook: Rulebook = RULEBOOK,
        *,
        txs_max: int = MEMPOOL_TXS_MAX,
        bytes_max: int = MEMPOOL_BYTES_MAX,
    ) -> None:
        """Start without transactions; ``base`` may be empty until the first transaction is checked.

        Once half of ``txs_max`` or of ``bytes_max`` is taken, only duties are accepted.
        """
        self._overlay = Overlay(base)
        self._crypto = crypto
        self._rulebook = rulebook
        # The context is made for the first transaction and used for all transactions, because the ante stores nothing
        # in it.
        self._ctx: Context | None = None
        self._rules: Rules | None = None
        self._lane: Lane | None = None
        self._txs_left, self._bytes_left = txs_max // 2, bytes_max // 2

    def check_tx(
        self, tx: Tx, *, min_gas_price_millionths: int, recheck: bool = False, check_signature: bool = True
    ) -> TxResult:
        """Check a transaction: run the ante on the overlay, and the stateless check of every message.

        The sequence advances in the overlay, so that a second transaction of the same account can follow. A recheck
        refuses a transaction that no longer pays the gas price, so that it does not take the place of transactions that
        pay it. ``min_gas_price_millionths`` is the node's own minimum, and does not apply to duties.
        ``check_signature`` is False if the signature is known to be valid.
        """
        ctx, rules, lane = self._begin()
        try:
            check_stateless(rules, tx)
            duty = lane.find(tx)
            in_lane = lane.has_room(tx, duty)
            if not in_lane and not recheck:
                self._check_room(tx)
            sender = rules.ante(
                ctx,
                tx,
                price_millionths=lane.price(in_lane) if in_lane else max(min_gas_price_millionths, lane.gas_price),
                check_signature=check_signature and not recheck,
            )
        except Refusal as refusal:
            return refused(refusal, tx.gas_limit, 0, ())
        lane.take(tx, duty)
        self._txs_left -= 1
        self._bytes_left -= tx.size
        return _accepted(tx.gas_limit, sender.gas)

    def _check_room(self, tx: Tx) -> None:
        """Refuse a transaction that is not a duty if half of the mempool is taken."""
        if self._txs_left <= 0 or self._bytes_left < tx.size:
            reason = "half of the mempool is taken, and the rest is for duties"
            raise Refusal(MEMPOOL_FULL, "tx", reason, "send it again after the next block")

    def _begin(self) -> tuple[Context, Rules, Lane]:
        """Return the context in which all transactions are checked, the rules of the next block, and its lane."""
        if self._ctx is None or self._rules is None or self._lane is None:
            overlay = self._overlay
            self._rules, _ = enter_next(overlay, self._rulebook)
            self._lane = Lane(overlay, self._rules, has_bounds=False)
            block = next_block(overlay)
            self._ctx = Context(
                store=overlay,
                block=block,
                crypto=self._crypto,
                rules=self._rules,
                next_event=0,
                is_check=True,
            )
        return self._ctx, self._rules, self._lane


@lru_cache(maxsize=4096)
def _accepted(gas_wanted: int, gas_used: int) -> TxResult:
    """Return the result for an accepted transaction. It is cached, because few different values occur."""
    return TxResult(code=0, codespace="", log="", gas_wanted=gas_wanted, gas_used=gas_used, events=())


class _Trusting:
    """The crypto of a simulation: it accepts every signature, because the transaction is unsigned."""

    def __init__(self, crypto: Crypto) -> None:
        """Use ``crypto`` for all checks that this class does not replace."""
        self.is_point = crypto.is_point
        self.chunk_proof = crypto.chunk_proof
        self.decrypt = crypto.decrypt

    def signature(self, key: bytes, message: bytes, signature: bytes) -> bool:
        """Accept any signature."""
        return True

    def reveal(self, key: bytes, message: bytes, proof: bytes) -> bool:
        """Accept any proof."""
        return True


def simulate_tx(base: Reader, tx: Tx, crypto: Crypto, rulebook: Rulebook = RULEBOOK) -> TxResult:
    """Run a transaction without signature, fee and sequence, and drop its changes.

    The transaction may use up to a tenth of a block's gas. On another node, or one block later, the used gas differs
    little, because work that the sender does not determine goes into the queue.
    """
    overlay = Overlay(base)
    first_event = NEXT_EVENT.get(overlay)
    rules, _ = enter_next(overlay, rulebook)
    ctx = Context(
        store=overlay,
        block=next_block(overlay),
        crypto=_Trusting(crypto),
        rules=rules,
        next_event=first_event,
    )
    ctx.gas_limit, ctx.gas_used = tx_gas_max(ctx.block.params.of(NodeParams)), gas_of(tx)
    try:
        if ctx.gas_used > ctx.gas_limit:
            raise out_of_gas("simulation", ctx.gas_limit, ctx.gas_used)
        check_stateless(rules, tx)
        sender = rules.ante(ctx, tx, price_millionths=0, simulate=True)
        apply_messages(ctx, rules, tx, sender)
    except Refusal as refusal:
        return refused(refusal, tx.gas_limit, ctx.gas_used, ())
    events, responses = tuple(ctx.events), tuple(ctx.responses)
    return TxResult(
        code=0,
        codespace="",
        log="",
        gas_wanted=tx.gas_limit,
        gas_used=ctx.gas_used,
        events=events,
        responses=responses,
    )


def enter_next(overlay: Overlay, rulebook: Rulebook) -> tuple[Rules, bool]:
    """Return the rules of the next block, after migrating the committed state in ``overlay`` to them.

    Also return whether these rules are new in that block.
    """
    return rulebook.enter(overlay, HEAD.must(overlay).height + 1)


def next_block(overlay: Overlay) -> BlockInfo:
    """Return the block info of the block after a committed state, as if no time had passed since the last block."""
    head, params = HEAD.must(overlay), PARAMS.get(overlay)
    clock = head.clock_ns // NS
    return BlockInfo(
        chain_id=head.chain_id,
        denom=head.denom,
        height=head.height + 1,
        clock=clock,
        params=params,
        previous_hash=head.last_hash,
        previous_beacon=head.beacon,
    )
