"""The consumer's job directories: reading the document, writing a result, and recording each order's directory."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from errno import EISDIR
from hashlib import sha256
from os import strerror
from pathlib import Path

from consumer.errors import ConsumerError
from domain.market.records import Order
from host.files import write_durably
from pol.job.checkpoint import HasTraining, training_folder, write_training
from pol.job.document import Job
from pol.job.load import load_document
from pol.names import ModelNames
from pol.state.arrays import State
from pol.state.tensors import safetensors_pieces


def read_job(directory: Path | str) -> Job:
    """Read the document ``job.json`` of a job directory, and check it. Do not check the job's data and states.

    Raise JobError, naming the field that is wrong.

    Example::

        job = assay.read_job("my-job")
        print(job.id.hex(), job.total_flops)
    """
    return load_document(Path(directory))


def check_ordered(job: Job, order: Order) -> None:
    """Check that an order is for this job; raise ConsumerError if the order is for another job."""
    if job.id != order.terms.job_id:
        raise ConsumerError(
            "this job is not the ordered one: it was changed or built again after the order",
            "give the directory of the ordered job: --job DIR (in Python: job=)",
        )


def save_result(result: HasTraining, path: Path) -> bytes:
    """Write a result: the model to the file ``path``, and a folder beside it, from which another job can continue.

    Return the SHA-256 of the model's file.
    """
    digest = write_result(result.state, path)
    try:
        write_training(path, result.locals, result.position)
    except OSError as error:
        raise ConsumerError(
            f"{training_folder(path)} cannot be written ({error.strerror})",
            "choose a file in a writable folder: -o FOLDER/model.safetensors",
        ) from None
    return digest


def write_result(state: State, path: Path) -> bytes:
    """Write a state to a safetensors file, with the model's names for tensors; return the file's SHA-256."""
    digest = sha256()

    def hashed() -> Iterator[memoryview]:
        for piece in safetensors_pieces(ModelNames(state)):
            digest.update(piece)
            yield piece

    try:
        if path.is_dir():
            raise IsADirectoryError(EISDIR, strerror(EISDIR))
        if path.is_file() and not _may_be_replaced(path):
            raise ConsumerError(
                f"{path} exists and is not a safetensors file, so it is not replaced",
                "choose another file: -o model.safetensors",
            )
        write_durably(path, hashed(), mode=0o666)
    except OSError as error:
        raise ConsumerError(
            f"{path} cannot be written ({error.strerror})", "choose another file: -o model.safetensors"
        ) from None
    return digest.digest()


def _may_be_replaced(path: Path) -> bool:
    """Return whether a file is empty or looks like a safetensors file: eight bytes with a length, then a JSON
    object.
    """
    with path.open("rb") as file:
        head = file.read(9)
    return not head or head[8:] == b"{"


@dataclass(frozen=True, slots=True)
class OrderNote:
    """The record of an order that is stored in the consumer's home."""

    order_id: bytes
    # The job directory.
    job: Path
    # Address of the account that submitted the order.
    key: str
    # Number of the first event that may concern the order.
    since: int = 1
    # Name of the job, which is not on the chain.
    name: str = ""


def remember(home: Path, note: OrderNote) -> None:
    """Write the record of an order to the folder ``home``; raise ConsumerError if it cannot be written."""
    folder = home / "orders"
    text = json.dumps(
        {
            "job": str(note.job.resolve()),
            "key": note.key,
            "since": note.since,
            "name": note.name,
        }
    )
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_durably(folder / f"{note.order_id.hex()}.json", text.encode())
    except OSError as error:
        raise ConsumerError(
            f"{folder} cannot be written ({error.strerror}), so order {note.order_id.hex()} was not sent",
            "free some space or set write permission there, and order again",
        ) from None


def job_name(home: Path, order_id: bytes) -> str:
    """Return the name of an order's job, or the name of the job's directory if the job has none.

    Return an empty text if this home has no record of the order.
    """
    try:
        note = recall(home, order_id)
    except ConsumerError:
        return ""
    return note.name or note.job.name


def recall(home: Path, order_id: bytes) -> OrderNote:
    """Return the home's record of an order; raise ConsumerError if the home has no record of it."""
    path = home / "orders" / f"{order_id.hex()}.json"
    try:
        fields = json.loads(path.read_text())
        return OrderNote(
            order_id=order_id,
            job=Path(fields["job"]),
            key=str(fields["key"]),
            since=int(fields.get("since", 1)),
            name=str(fields.get("name", "")),
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        raise ConsumerError(
            "this home does not know the order's job directory", "name it with --job DIR (in Python: job=)"
        ) from None
