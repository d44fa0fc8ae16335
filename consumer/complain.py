"""Complaints: proofs, sent to the chain, that the bytes that a validator handed over are not the states of a round."""

from collections.abc import Callable
from pathlib import Path

from chain.client.client import ChainClient, TxReceipt
from chain.client.sender import TxSender
from consumer.errors import ConsumerError
from consumer.missed import may_ask, never_served
from consumer.result import Result, fetch_result
from link.errors import ClusterError
from link.handover import HandoverError
from pol.job.document import Job
from wire.keys import Key


def fetch_or_complain(
    client: ChainClient,
    key: Key,
    order_id: bytes,
    job: Job,
    scratch: Path,
    progress: Callable[[int, int], None] | None = None,
    round: int | None = None,
    sender: TxSender | None = None,
) -> Result:
    """Fetch a result as :func:`consumer.result.fetch_result` does; with a ``sender``, prove a wrong chunk to the chain.

    The HandoverError of a wrong chunk then says that the chain has the proof. If the validator does not serve the
    result at all, ask a panel to fetch it, and raise ConsumerError that says so.
    """
    try:
        return fetch_result(client, key, order_id, job, scratch, progress, round)
    except ClusterError as error:
        if sender is None or not may_ask(client, order_id, round):
            raise
        receipt = never_served(client, order_id, round, sender=sender)
        since = f"since height {receipt.height} a panel tries to fetch it"
        reason = f"the validator does not serve the result ({error.reason}); {since}"
        raise ConsumerError(reason, "fetch the result again when the panel is over (assay order why)") from None
    except HandoverError as error:
        if sender is None or error.complaint is None:
            raise
        receipt = sender.send(error.complaint)
        done = f"the chain has the proof since height {receipt.height}: the job bond pays what the leg has cost you"
        raise HandoverError(error.chunk, error.reason, done, error.complaint) from None


def complain(
    client: ChainClient,
    key: Key,
    order_id: bytes,
    job: Job,
    scratch: Path,
    progress: Callable[[int, int], None] | None = None,
    round: int | None = None,
    *,
    sender: TxSender,
) -> tuple[HandoverError, TxReceipt]:
    """Fetch the states of a hand-over round, and prove the first wrong chunk to the chain.

    Return the error that names the chunk, and the receipt. ConsumerError if all chunks are right; HandoverError if the
    result is wrong, but nothing can be proven.
    """
    try:
        result = fetch_result(client, key, order_id, job, scratch, progress, round)
    except HandoverError as error:
        if error.complaint is None:
            raise
        return error, sender.send(error.complaint)
    reason = f"the states of round {result.round} are right, so there is nothing to complain about"
    raise ConsumerError(reason, "fetch them with assay order result (in Python: order.result())")
