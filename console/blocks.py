"""The pages of blocks and transactions, each with an upper limit on the rows that it shows."""

from typing import Any, Final

from console import words
from console.errors import ConsoleError, NotThere
from console.index.writing import EventIndex
from console.known import NodeSnapshot
from console.node import ConsoleNode, Sent, show_message
from console.rows import PageQuery, event_row

BLOCKS_SHOWN: Final = 50
SENT_SHOWN: Final = 100
EVENTS_SHOWN: Final = 50
MESSAGES_SHOWN: Final = 20
ATTRIBUTES_SHOWN: Final = 24
TEXT_SHOWN: Final = 200


def show_blocks(index: EventIndex, snapshot: NodeSnapshot, query: PageQuery) -> dict[str, Any]:
    """Return the data of one page of the list of blocks, the newest first.

    If the query has a height ``before``, the page has only older blocks. Blocks whose time is not known are left out.
    """
    most = query.number("before", 1, 2**40)
    blocks = index.blocks(BLOCKS_SHOWN + 1, most - 1)
    shown = blocks[:BLOCKS_SHOWN]
    return {
        "blocks": [
            {
                "height": block.height,
                "time_ns": block.time_ns,
                "proposer": block.proposer.hex(),
                "operator": _operator(snapshot, block.proposer),
                "events": index.events_at(block.height)[1],
            }
            for block in shown
        ],
        "newest": "before" not in query.values,
        "older": shown[-1].height if len(blocks) > BLOCKS_SHOWN else 0,
    }


def show_block(
    index: EventIndex, snapshot: NodeSnapshot, node: ConsoleNode | None, query: PageQuery, height: int
) -> dict[str, Any]:
    """Return the data of a block's page, with its transactions and events; raise NotThere if there is no such block."""
    newest = snapshot.status.height if snapshot.status else 0
    if not 0 < height <= newest:
        raise NotThere(f"There is no block {height:,}: the newest is block {newest:,}.")
    first, count = index.events_at(height)
    pages = max(1, -(-count // EVENTS_SHOWN))
    at = min(pages, query.number("page", 1, 1))
    begin = first + (at - 1) * EVENTS_SHOWN
    events = index.events(begin, min(EVENTS_SHOWN, first + count - begin)) if count else []
    known, proposer = index.block(height), b""
    time_ns = 0
    if known is not None:
        time_ns, proposer = known.time_ns, known.proposer
    elif node is not None and (head := node.head(height)) is not None:
        time_ns, proposer = head.time_ns, head.proposer
    sent = node.sent_at(height) if node is not None else None
    return {
        "height": height,
        "newest": newest,
        "time_ns": time_ns,
        "proposer": proposer.hex(),
        "operator": _operator(snapshot, proposer),
        "sent_known": sent is not None,
        "sent_count": len(sent or ()),
        "sent": [_sent(transaction) for transaction in (sent or ())[:SENT_SHOWN]],
        "events_count": count,
        "events": [event_row(index, event) for event in events],
        "page": at,
        "pages": pages,
    }


def show_transaction(index: EventIndex, node: ConsoleNode | None, text: str) -> dict[str, Any]:
    """Return the data of the page of the transaction whose hash is ``text`` (64 hex digits).

    Raise NotThere if ``text`` is not a hash, or if the node has no such transaction in a block or does not answer.
    """
    digits = text.lower()
    if len(digits) != 64 or not all(digit in "0123456789abcdef" for digit in digits):
        raise NotThere("This is not the hash of a transaction, which has 64 hex digits.")
    try:
        answer = node.receipt(bytes.fromhex(digits)) if node is not None else None
    except ConsoleError as error:
        raise NotThere(f"The node does not answer: {words.cut(error.reason, 160)}.") from None
    if answer is None:
        raise NotThere(f"The node has no transaction with the hash {digits[:12]}… in a block.")
    receipt, sent = answer
    messages = sent.tx.messages if sent.tx else ()
    return {
        **_sent(sent),
        "hash": digits,
        "height": receipt.height,
        "time_ns": index.block_time(receipt.height),
        "code": receipt.code,
        "codespace": receipt.codespace,
        "log": receipt.log[:1_000],
        "gas_wanted": receipt.gas_wanted,
        "gas_used": receipt.gas_used,
        "fee": sum(coin.amount for coin in sent.tx.fee) if sent.tx else 0,
        "memo": sent.tx.memo if sent.tx else "",
        "messages_count": len(messages),
        "messages": [show_message(message) for message in messages[:MESSAGES_SHOWN]],
        "events_count": len(receipt.events),
        "events": [
            {
                "kind": event.type[:TEXT_SHOWN],
                "attributes": [
                    {"name": name[:TEXT_SHOWN], "value": value[:TEXT_SHOWN]}
                    for name, value in event.attributes[:ATTRIBUTES_SHOWN]
                ],
            }
            for event in receipt.events[:EVENTS_SHOWN]
        ],
    }


def _sent(sent: Sent) -> dict[str, Any]:
    return {
        "hash": sent.hash.hex(),
        "size": sent.size,
        "signer": sent.signer,
        "kinds": [words.message_kind(kind) for kind in sent.kinds[:MESSAGES_SHOWN]],
    }


def _operator(snapshot: NodeSnapshot, proposer: bytes) -> str:
    """Return the operator of the validator with the consensus address ``proposer``; empty if no present validator has
    this address.
    """
    operators = {validator.cons_address: validator.operator for validator in snapshot.validators}
    return operators.get(proposer, "")
