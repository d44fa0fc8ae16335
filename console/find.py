"""The search for orders, blocks, transactions, validators, providers and jobs by a text, such as a name or an id."""

from typing import Any, Final

from console import words
from console.errors import ConsoleError
from console.index.writing import EventIndex
from console.known import NodeSnapshot
from console.node import ConsoleNode

HITS_MAX: Final = 20
"""Maximum number of hits of each kind; with more, the user types a longer text."""
_ORDER_DIGITS: Final = 4


def find(index: EventIndex, snapshot: NodeSnapshot, node: ConsoleNode | None, text: str) -> list[dict[str, Any]]:
    """Return all hits for a text: objects with that height, address, id, hash or name.

    An address or an order's id may also begin with the text, and a name may contain it. If the text is the exact
    moniker of a validator, validators whose moniker only contains it are left out.
    """
    hits = [
        *_blocks(snapshot, text),
        *_members(index, snapshot, text),
        *_orders(index, text.lower()),
        *_transactions(node, text.lower()),
        *(
            _hit("order", f"/orders/{order_id.hex()}", order_id.hex(), f"of the job {name}")
            for order_id, name in index.find_named(text, HITS_MAX)
        ),
    ]
    unique = {hit["path"]: hit for hit in reversed(hits)}
    return list(reversed(unique.values()))


def _hit(kind: str, path: str, label: str, note: str) -> dict[str, Any]:
    return {"kind": kind, "path": path, "label": label, "note": words.cut(note, 80)}


def _blocks(snapshot: NodeSnapshot, text: str) -> list[dict[str, Any]]:
    digits = text.replace(",", "")
    newest = snapshot.status.height if snapshot.status else 0
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 12):
        return []
    height = int(digits)
    return [_hit("block", f"/blocks/{height}", f"{height:,}", "")] if 0 < height <= newest else []


def _members(index: EventIndex, snapshot: NodeSnapshot, text: str) -> list[dict[str, Any]]:
    wanted = text.casefold()
    named = [v for v in snapshot.validators if wanted in v.moniker.casefold()]
    exact = [v for v in named if v.moniker.casefold() == wanted]
    hits = [_hit("validator", f"/members/{v.operator}", v.operator, v.moniker) for v in (exact or named)[:HITS_MAX]]
    if len(text) < _ORDER_DIGITS:
        return hits
    operators = [v.operator for v in snapshot.validators if v.operator.startswith(text)]
    providers = [p.address for p in snapshot.providers if p.address.startswith(text)]
    hits += [_hit("validator", f"/members/{a}", a, "") for a in operators[:HITS_MAX]]
    hits += [_hit("provider", f"/members/{a}", a, "") for a in providers[:HITS_MAX]]
    if not hits and index.orders(consumer=text, limit=1)[1]:
        hits.append(_hit("consumer", f"/members/{text}", text, ""))
    return hits


def _orders(index: EventIndex, digits: str) -> list[dict[str, Any]]:
    if not (_ORDER_DIGITS <= len(digits) <= 64 and set(digits) <= set("0123456789abcdef")):
        return []
    ids = index.find_orders(digits, HITS_MAX)
    return [_hit("order", f"/orders/{order.hex()}", order.hex(), _job_of(index, order)) for order in ids]


def _job_of(index: EventIndex, order_id: bytes) -> str:
    row = index.order(order_id)
    return index.job_name(row.job_id) if row else ""


def _transactions(node: ConsoleNode | None, digits: str) -> list[dict[str, Any]]:
    if node is None or len(digits) != 64 or not set(digits) <= set("0123456789abcdef"):
        return []
    try:
        receipt = node.receipt(bytes.fromhex(digits))
    except ConsoleError:
        return []
    return [_hit("transaction", f"/transactions/{digits}", digits, "")] if receipt else []
