"""Gas: a fixed price list, so that the gas of a transaction is known before it runs and is the same on every node."""

from domain.messages import (
    Message,
    MsgAnswerAudit,
    MsgCloseRound,
    MsgCommitTraces,
    MsgReportProvider,
    MsgSubmitOrder,
)
from domain.tx import Tx

TX_GAS = 30_000  # decoding, the signature, account and fee
BYTE_GAS = 10
MESSAGE_GAS = 20_000
ITEM_GAS = 10_000  # a share (one more signature), a rejection, an answer, an accepted share
SUBMIT_GAS = 60_000  # one more signature, and a place in the book


def gas_of(tx: Tx) -> int:
    """Return the gas that a transaction uses."""
    return TX_GAS + tx.size * BYTE_GAS + sum(message_gas(message) for message in tx.messages)


def message_gas(message: Message) -> int:
    """Return the gas of one message."""
    match message:
        case MsgCommitTraces(shares=shares, rejections=rejections):
            return MESSAGE_GAS + (2 * len(shares) + len(rejections)) * ITEM_GAS
        case MsgCloseRound(shares=refs):
            return MESSAGE_GAS + len(refs) * ITEM_GAS
        case MsgAnswerAudit(answers=answers):
            return MESSAGE_GAS + len(answers) * ITEM_GAS
        case MsgReportProvider():
            return MESSAGE_GAS + 2 * ITEM_GAS
        case MsgSubmitOrder():
            return SUBMIT_GAS
        case _:
            return MESSAGE_GAS
