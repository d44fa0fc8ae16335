"""Delivering a payload to the validator that won the order."""

from collections.abc import Callable
from functools import partial
from hashlib import file_digest
from pathlib import Path

from chain.client.client import ChainClient
from consumer.errors import ConsumerError
from consumer.jobs import check_ordered
from domain.market.records import OrderState
from domain.proof.queries import OrderRequest
from domain.registry.queries import ValidatorsRequest
from domain.registry.records import Validator
from link.client import connect
from link.types import (
    OFFER_PAYLOAD,
    PAYLOAD_STATUS,
    BlobRef,
    PayloadFile,
    PayloadOffer,
    PayloadState,
    PayloadStatusRequest,
)
from pol.job.document import Job
from wire.keys import Key

Progress = Callable[[int, int], None]
"""A function that is called with the bytes sent so far and the bytes of the whole payload."""


def payload(directory: Path, job: Job) -> dict[PayloadFile, Path]:
    """Return the files that a validator needs for the job, and the path of each file on this machine.

    Raise ConsumerError if a file cannot be read or is not the one that the job names.
    """
    files: dict[PayloadFile, Path] = {}
    for file in job.payload:
        path = directory / file.path
        try:
            with path.open("rb") as opened:
                digest = file_digest(opened, "sha256").digest()
                size = opened.tell()
        except OSError as error:
            raise ConsumerError(
                f"{path} cannot be read ({error.strerror})", "restore the job directory, or build the job again"
            ) from None
        if size != file.size or file.sha256 not in (None, digest):
            raise ConsumerError(
                f"{path} was changed since the job was built", "restore the job directory, or build the job again"
            )
        files[PayloadFile(file.path, BlobRef(digest, file.size))] = path
    return files


def find_validator(client: ChainClient, operator: str) -> Validator:
    """Return the chain's record of a validator; raise ConsumerError if there is none."""
    validators = client.query(ValidatorsRequest()).validators
    validator = next((v for v in validators if v.operator == operator), None)
    if validator is None:
        raise ConsumerError(
            f"validator {operator} is no longer registered on the chain, so its address is unknown",
            "see the order's state with assay order why",
        )
    return validator


def winner(client: ChainClient, order_id: bytes) -> Validator:
    """Return the validator of the order's current leg.

    Raise ConsumerError if the order is not matched yet, or if the validator is no longer registered.
    """
    current = client.query(OrderRequest(order_id)).current
    if current is None:
        raise ConsumerError("the order is not matched yet", "wait for a match: assay order watch")
    return find_validator(client, current.validator)


def deliver(
    client: ChainClient,
    key: Key,
    order_id: bytes,
    directory: Path,
    job: Job,
    progress: Progress | None = None,
) -> PayloadState:
    """Send the winning validator the files of the payload that it lacks, and return its record of the payload.

    A file that an earlier try sent in part is continued. Raise ConsumerError if the order is not matched, or if a file
    was changed; raise ClusterError if the connection fails.
    """
    order = client.query(OrderRequest(order_id)).order
    if order.state != OrderState.MATCHED:
        raise ConsumerError(
            f"the order is {order.state.name.lower()}; a payload can be delivered only while it is matched",
            "see the order's state with assay order show",
        )
    check_ordered(job, order)
    files = payload(directory, job)
    total = sum(file.blob.size for file in files)
    with connect(winner(client, order_id), key, client.status().chain_id) as link:
        wanted = link.call(OFFER_PAYLOAD, PayloadOffer(order_id, tuple(files)))
        missing = {blob.sha256 for blob in wanted.missing}
        sent = sum(file.blob.size for file in files if file.blob.sha256 not in missing)
        for file, path in files.items():
            if file.blob.sha256 in missing:
                link.put_blob(path, partial(_report, progress, sent, total))
                sent += file.blob.size
            if progress:
                progress(sent, total)
        return link.call(PAYLOAD_STATUS, PayloadStatusRequest(order_id))


def _report(progress: Progress | None, before: int, total: int, done: int, _size: int) -> None:
    """Report the bytes sent of the whole payload: ``before`` of earlier files, and ``done`` of the current file."""
    if progress:
        progress(before + done, total)
