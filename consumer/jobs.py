"""The consumer's side of a job directory: reading the document, writing a result."""

from errno import EISDIR
from hashlib import sha256
from os import strerror
from pathlib import Path

from consumer.errors import ConsumerError
from domain.records import Order
from host.files import write_durably
from pol.job.document import DOCUMENT, Job, parse_job
from pol.job.load import read_file
from pol.limits import LIMITS
from pol.state.arrays import State
from pol.state.tensors import dump_safetensors


def read_job(directory: Path) -> Job:
    """Read and check ``job.json``; JobError names the field. Data and states are checked by who loads them."""
    return parse_job(read_file(directory / DOCUMENT, DOCUMENT, LIMITS.document_size))


def check_ordered(job: Job, order: Order) -> None:
    """Check that the job is the one that was ordered; ConsumerError."""
    if job.id != order.terms.job_id:
        raise ConsumerError(
            "this job is not the one that was ordered: it was changed or built again since",
            "name the directory of the ordered one with --job",
        )


def write_result(state: State, path: Path) -> bytes:
    """Write a state as safetensors (names as in the model) and return the file's SHA-256."""
    data = dump_safetensors(state)
    try:
        if path.is_dir():
            raise IsADirectoryError(EISDIR, strerror(EISDIR))
        write_durably(path, data, mode=0o666)
    except OSError as error:
        raise ConsumerError(
            f"{path} cannot be written ({error.strerror})", "name another file with -o"
        ) from None
    return sha256(data).digest()
