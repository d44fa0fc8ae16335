"""Complaints: proofs, sent to the chain, that the bytes that a validator handed over are not the states of a round."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from chain.client.client import ChainClient, TxReceipt
from chain.client.sender import TxSender
from consumer.errors import ConsumerError
from consumer.missed import may_ask, never_served
from consumer.result import Result, fetch_result
from domain.proof.messages import MsgComplain
from link.errors import ClusterError
from link.handover import HandoverError
from pol.job.document import Job
from wire.keys import Key

PAUSES = (2.0, 4.0)
"""Pauses (seconds) before a result is fetched again: a panel would cost the consumer money, although its validator may
just be starting again.
"""


def fetch_or_complain(
    client: ChainClient,
    key: Key,
    order_id: bytes,
    job: Job,
    scratch: Path,
    progress: Callable[[int, int], None] | None = None,
    round: int | None = None,
    sender: TxSender | None = None,
    pauses: Sequence[float] = PAUSES,
) -> Result:
    """Fetch a result as :func:`consumer.result.fetch_result` does; with a ``sender``, prove a wrong chunk to the chain.

    The HandoverError of a wrong chunk then says that the chain has the proof. If the validator serves nothing, or
    nothing that a complaint could prove wrong, try again after each of the ``pauses`` (seconds). Then ask a panel to
    fetch the result, and raise ConsumerError that says so.
    """
    tries = iter(pauses)
    while True:
        try:
            return fetch_result(client, key, order_id, job, scratch, progress, round)
        except (ClusterError, HandoverError) as error:
            if sender is None:
                raise
            if isinstance(error, HandoverError) and error.complaint is not None:
                raise _prove(sender, error, error.complaint) from None
            if not may_ask(client, order_id, round):
                raise
            seconds = next(tries, None)
            if seconds is None:
                receipt = never_served(client, order_id, round, sender=sender)
                since = f"since height {receipt.height} a panel tries to fetch it"
                reason = f"the validator does not serve the result ({error.reason}); {since}"
                remedy = "fetch the result again when the panel is over (assay order why)"
                raise ConsumerError(reason, remedy) from None
        time.sleep(seconds)


def _prove(sender: TxSender, error: HandoverError, complaint: MsgComplain) -> HandoverError:
    """Send the proof of a wrong chunk to the chain, and return the error that says so."""
    receipt = sender.send(complaint)
    done = f"the chain has the proof since height {receipt.height}: the job bond pays what the leg has cost you"
    return HandoverError(error.chunk, error.reason, done, complaint)


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
