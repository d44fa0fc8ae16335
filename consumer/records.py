"""Which job directory belongs to which order: a small file per order in the consumer's home."""

import json
from dataclasses import dataclass
from pathlib import Path

from consumer.errors import ConsumerError
from host.files import write_durably


@dataclass(frozen=True, slots=True)
class OrderNote:
    """What the consumer's machine remembers of an order."""

    order_id: bytes
    job: Path
    # Address that ordered.
    key: str


def remember(home: Path, note: OrderNote) -> None:
    """Write the note; ConsumerError where it cannot be kept: the order is on chain all the same."""
    folder = home / "orders"
    text = json.dumps({"job": str(note.job.resolve()), "key": note.key})
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_durably(folder / f"{note.order_id.hex()}.json", text.encode())
    except OSError as error:
        raise ConsumerError(
            f"order {note.order_id.hex()} is on chain, but {folder} cannot be written"
            f" ({error.strerror})",
            "make space there and keep the order's id",
        ) from None


def recall(home: Path, order_id: bytes) -> OrderNote:
    """Read the note; ConsumerError where this machine did not order it."""
    path = home / "orders" / f"{order_id.hex()}.json"
    try:
        fields = json.loads(path.read_text())
        return OrderNote(order_id, Path(fields["job"]), str(fields["key"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        raise ConsumerError(
            "this home does not know the order's job directory", "name it with --job DIR"
        ) from None
