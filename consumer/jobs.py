"""The consumer's side of a job directory: reading the document, writing a result."""

from hashlib import sha256
from pathlib import Path

from consumer.errors import ConsumerError
from pol.job.document import DOCUMENT, Job, parse_job
from pol.job.limits import LIMITS
from pol.job.load import read_file
from pol.state.arrays import State
from pol.state.tensors import dump_safetensors


def read_job(directory: Path) -> Job:
    """Read and check ``job.json``; JobError names the field. Data and states are checked by who loads them."""
    return parse_job(read_file(directory / DOCUMENT, DOCUMENT, LIMITS.document_size))


def write_result(state: State, path: Path) -> bytes:
    """Write a state as safetensors (names as in the model) and return the file's SHA-256."""
    data = dump_safetensors(state)
    partial = path.with_name(path.name + ".part")
    try:
        partial.write_bytes(data)
        partial.replace(path)
    except OSError as error:
        raise ConsumerError(
            f"{path} cannot be written ({error.strerror})", "name another file with -o"
        ) from None
    return sha256(data).digest()
