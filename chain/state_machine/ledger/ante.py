"""The ante: checks of every transaction before its messages run (size, signer, fee, sequence, signature).

All checks come before the first write, so that a transaction that fails here changes nothing and costs nothing. A
transaction that passes pays its fee and uses up its sequence, even if its messages fail later. The texts of the
refusals contain the words that Cosmos clients look for.
"""

from collections.abc import Callable

from chain.state_machine.context import Context, TxOrigin
from chain.state_machine.gas import check_gas, gas_of
from chain.state_machine.ledger import balances
from chain.state_machine.ledger.hooks import FEE_GRANTED
from chain.state_machine.ledger.tables import ACCOUNTS, BALANCES
from domain.amount import ceil_div
from domain.errors import (
    INSUFFICIENT_FEE,
    INSUFFICIENT_FUNDS,
    INVALID_COINS,
    INVALID_PUBKEY,
    INVALID_REQUEST,
    INVALID_SEQUENCE,
    MEMO_TOO_LARGE,
    TX_TIMEOUT,
    TX_TOO_LARGE,
    UNAUTHORIZED,
    UNKNOWN_ADDRESS,
    WRONG_SEQUENCE,
    Refusal,
)
from domain.ledger.records import Account
from domain.limits import MEMO_BYTES_MAX, MESSAGES_MAX, TX_BYTES_MAX
from domain.messages import signer_of
from domain.node.params import NodeParams
from domain.tx import SignerInfo, Tx, signers_of

MILLION = 1_000_000
SEQUENCE_MAX = 2**63 - 1


def apply_ante(
    ctx: Context,
    tx: Tx,
    *,
    price_millionths: int,
    check_signature: bool = True,
    simulate: bool = False,
) -> TxOrigin:
    """Check a transaction, take its fee and advance the sequences of its signers; return its origin.

    The fee must pay the gas limit at ``price_millionths``. ``check_signature`` is False if the same bytes were checked
    before. A transaction to simulate has no fee, gas limit or valid signature, and its sequence may be 0.
    """
    gas = check_form(ctx, tx, simulate)
    addresses = check_signers(tx)
    fee = 0 if simulate else check_fee(ctx, tx, price_millionths)
    accounts = [check_account(ctx, addresses[at], signer, simulate) for at, signer in enumerate(tx.signers)]
    payer = tx.fee_payer or addresses[0]
    uses = check_grant(ctx, tx, payer, fee)
    if uses:
        payer = tx.fee_granter
    balance = BALANCES.get(ctx.store, payer, ctx.block.denom) if fee else 0
    if balance < fee:
        reason = f"the account has less than {fee}{ctx.block.denom}: insufficient funds"
        raise Refusal(INSUFFICIENT_FUNDS, "fee", reason, "send coins to the account first")
    if check_signature and not simulate:
        for account, signer in zip(accounts, tx.signers, strict=True):
            verify_signatures(ctx, tx, signer, account)
    if fee:
        balances.charge_fee(ctx, payer, balance, fee)
    for use in uses:
        use()
    for at, account in enumerate(accounts):
        ACCOUNTS.put(
            ctx.store,
            Account(
                address=account.address,
                number=account.number,
                sequence=account.sequence + 1,
                pub_key=account.pub_key or tx.signers[at].pub_key,
            ),
        )
    if not ctx.is_check:
        note_tx(ctx, accounts, payer, fee)
    return TxOrigin(address=addresses[0], sequence=accounts[0].sequence, gas=gas, payer=payer)


def check_form(ctx: Context, tx: Tx, simulate: bool) -> int:
    """Check a transaction's sizes, timeout and gas limit, and return the gas that it needs at least."""
    if tx.size > TX_BYTES_MAX:
        raise Refusal(TX_TOO_LARGE, "tx", f"has {tx.size} bytes", f"send at most {TX_BYTES_MAX} bytes")
    if not 0 < len(tx.messages) <= MESSAGES_MAX:
        reason = f"has {len(tx.messages)} messages"
        raise Refusal(INVALID_REQUEST, "body.messages", reason, f"send 1 to {MESSAGES_MAX} messages")
    if tx.memo and len(tx.memo.encode()) > MEMO_BYTES_MAX:
        raise Refusal(MEMO_TOO_LARGE, "body.memo", "is too long", f"use at most {MEMO_BYTES_MAX} bytes")
    if tx.timeout_height and ctx.height > tx.timeout_height:
        reason = f"the chain is at height {ctx.height}, after the timeout height {tx.timeout_height}"
        raise Refusal(
            TX_TIMEOUT, "body.timeout_height", reason, "sign the transaction again with a later timeout height"
        )
    return gas_of(tx) if simulate else check_gas(tx, ctx.block.params.of(NodeParams))


def check_signers(tx: Tx) -> tuple[str, ...]:
    """Return the accounts that must sign a transaction; refuse it if others, more or fewer have signed."""
    addresses = signers_of(tx)
    if len(tx.signers) != len(addresses):
        reason = f"invalid number of signer; expected: {len(addresses)}, got {len(tx.signers)}: unauthorized"
        remedy = "let the signers of the messages sign in the order of the messages, and then the payer of the fee"
        raise Refusal(UNAUTHORIZED, "signers", reason, remedy)
    for at, signer in enumerate(tx.signers):
        if signer.address and signer.address != addresses[at]:
            reason = f"pubKey does not match signer address {addresses[at]}: unauthorized"
            raise Refusal(UNAUTHORIZED, _place(tx, addresses[at]), reason, "sign with the key of this address")
    return addresses


def _place(tx: Tx, address: str) -> str:
    """Return the field that says that ``address`` must sign."""
    fields = [f"messages.{message.SIGNER}" for message in tx.messages if signer_of(message) == address]
    return fields[0] if fields else "fee.payer"


def check_fee(ctx: Context, tx: Tx, price_millionths: int) -> int:
    """Return the fee; refuse it if it does not pay the gas limit at a price (millionths of uassay per gas)."""
    denom = ctx.block.denom
    if tx.fee and (len(tx.fee) > 1 or tx.fee[0].denom != denom or tx.fee[0].amount < 0):
        raise Refusal(INVALID_COINS, "fee.amount", "is not one amount of " + denom, "pay the fee in " + denom)
    fee = tx.fee[0].amount if tx.fee else 0
    required = ceil_div(tx.gas_limit * price_millionths, MILLION)
    if fee < required:
        reason = f"insufficient fees; got: {fee}{denom} required: {required}{denom}: insufficient fee"
        raise Refusal(INSUFFICIENT_FEE, "fee.amount", reason, "pay a higher fee, or set a lower gas limit")
    return fee


def check_grant(ctx: Context, tx: Tx, payer: str, fee: int) -> list[Callable[[], None]]:
    """Return what writes down that the fee's granter pays for ``payer``; nothing if the payer has to pay.

    Refuse what the granter did not allow.
    """
    if tx.fee_granter in ("", payer):
        return []
    uses = FEE_GRANTED(ctx, tx, payer, fee)
    if not uses:
        raise Refusal(INVALID_REQUEST, "fee.granter", "fee grants are not enabled", "remove the field")
    return uses


def check_account(ctx: Context, address: str, signer: SignerInfo, simulate: bool) -> Account:
    """Return the signer's account.

    Refuse the transaction if there is no account, or if the account has another key or sequence.
    """
    account = ACCOUNTS.get(ctx.store, address)
    if account is None:
        reason = f"account {address} not found: unknown address"
        raise Refusal(UNKNOWN_ADDRESS, "signers", reason, "send coins to it first")
    if not signer.pub_key and not account.pub_key and not simulate:
        reason = "is missing, and the account has never signed before"
        raise Refusal(INVALID_PUBKEY, "signers.public_key", reason, "put the public key into the transaction")
    if signer.pub_key and account.pub_key and signer.pub_key != account.pub_key:
        reason = "differs from the account's key"
        raise Refusal(INVALID_PUBKEY, "signers.public_key", reason, "sign with the account's key")
    if not signer.parts and account.is_multisig:
        reason = "is missing, and several people sign for the account"
        raise Refusal(INVALID_PUBKEY, "signers.public_key", reason, "put the multisig key into the transaction")
    if not 0 <= signer.sequence < SEQUENCE_MAX:
        raise Refusal(INVALID_SEQUENCE, "signers.sequence", "is out of range", "use the account's current sequence")
    if signer.sequence != account.sequence and not simulate:
        reason = (
            f"account sequence mismatch, expected {account.sequence}, got {signer.sequence}: incorrect account sequence"
        )
        raise Refusal(WRONG_SEQUENCE, "signers.sequence", reason, "sign with the expected sequence")
    return account


def verify_signatures(ctx: Context, tx: Tx, signer: SignerInfo, account: Account) -> None:
    """Check an account's signature, or those of the members of a multisig account."""
    for part in signer.signatures(account.pub_key):
        document = tx.document(part.mode, ctx.block.chain_id, account.number, account.sequence)
        if not ctx.crypto.signature(part.key, document, part.signature):
            reason = (
                f"signature verification failed; please verify account number ({account.number}), sequence "
                f"({account.sequence}) and chain-id ({ctx.block.chain_id}): unauthorized"
            )
            raise Refusal(UNAUTHORIZED, "signatures", reason, "sign the transaction again with these values")


def note_tx(ctx: Context, accounts: list[Account], payer: str, fee: int) -> None:
    """Add the events that Cosmos clients expect of every transaction."""
    coins = f"{fee}{ctx.block.denom}" if fee else ""
    ctx.note("tx", ("fee", coins), ("fee_payer", payer))
    for account in accounts:
        ctx.note("tx", ("acc_seq", f"{account.address}/{account.sequence}"))
