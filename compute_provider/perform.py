"""What the daemon does about a share with the chain, the validator and the disk: the actions of ``decide``.

Each call may be repeated. ``ClusterError`` and ``ChainError`` go to the caller, who knows what
they mean for the share.
"""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Lock

from compute_provider.config import ProviderConfig, ProviderError
from compute_provider.decide import claims
from compute_provider.decide.shares import State, Work
from compute_provider.interfaces import Behaviour, Chain, Sender
from compute_provider.links import Link
from compute_provider.store import Store, name_of
from compute_provider.work.worker import LOCAL_OUT, UPDATE, WorkOrder
from domain.hashing import merkle_root
from domain.messages import MsgDepositBond, MsgObjectReport
from domain.queries import OrderResponse
from domain.records import ShareClaim, ShareKey, ShareRef
from host.files import link_whole
from link.blobs import BlobStore
from link.types import BlobRef, Leaf, OpeningSubmission, ShareSubmission, TrainTask, Verdict
from pol.rules.commitment import share_sign_bytes, trace_leaf


class Performer:
    """Checks, fetches, signs, sends, objects and forgets shares; thread-safe."""

    def __init__(
        self,
        config: ProviderConfig,
        chain_id: str,
        chain: Chain,
        sender: Sender,
        *,
        link: Link,
        store: Store,
        behaviour: Behaviour,
    ) -> None:
        """Use what the daemon has opened."""
        self._config = config
        self._chain_id = chain_id
        self._chain = chain
        self._sender = sender
        self._link = link
        self._store = store
        self._behaviour = behaviour
        self._jobs = config.home / "jobs"
        self._bond_lock = Lock()
        self._promised: dict[ShareKey, int] = {}  # bonds of shares that the chain does not hold yet
        self.blobs = BlobStore(config.home / "blobs", config.disk_bytes)

    def check(self, task: TrainTask) -> str:
        """Return why the chain does not bear out the task or the disk not its trace, or an empty string.

        Sees to the bond, because a share without one is not committed.
        """
        order = self._chain.order(task.key.order_id)
        problem = claims.problem(task, order, self._config.validator)
        problem = problem or self._lacks_room(claims.trace_bytes(task, order), task.key)
        return problem or self._see_to_bond(task.key, claims.bond_of(task, order), order)

    def _lacks_room(self, size: int, key: ShareKey) -> str:
        here = sum(file.stat().st_size for file in self._store.folder(key).iterdir())
        room = min(shutil.disk_usage(self._config.home).free + here, self._config.disk_bytes)
        return f"its trace has {size} bytes, and there is room for {room}" if size > room else ""

    def _see_to_bond(self, key: ShareKey, bond: int, order: OrderResponse) -> str:
        """Have enough free bond for this share and for those that are trained but not committed yet."""
        with self._bond_lock:
            me = self._config.key.address
            self._promised = claims.still_promised(self._promised, key, order)
            self._promised[key] = bond
            needed = sum(self._promised.values())
            account = self._chain.account(me)
            lacking = needed - account.bond.free
            if lacking <= 0:
                return ""
            if not self._config.auto_bond or account.balance < lacking:
                del self._promised[key]
                return f"open shares need a bond of {needed} uassay, {account.bond.free} are free"
            self._sender.send(MsgDepositBond(me, lacking))
            return ""

    def fetch(self, task: TrainTask, go_on: Callable[[], None]) -> None:
        """Bring payload and opening states here, verified by their names.

        ``go_on`` is called before each chunk, and raises where they are not wanted any more.
        """
        client = self._link.client()
        folder = self._job_folder(task.key)
        # The folders come before the holds: they are what a sweep after a crash goes by.
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._store.folder(task.key)
        held = {f"job/{_order_name(task.key)}": [file.blob for file in task.payload]}
        held[_holder(task.key)] = [task.global_in.blob, task.local_in.blob]
        for holder, blobs in held.items():
            for blob in blobs:
                go_on()
                self.blobs.hold(blob.sha256, holder)
                client.fetch(blob, self.blobs, lambda *_: go_on())
        for file in task.payload:  # paths were bounded where they came in
            target = folder / file.path
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                link_whole(self.blobs.path(file.blob.sha256), target)

    def work_order(self, task: TrainTask, replay: int = -1) -> WorkOrder:
        """Return what a worker needs for the share."""
        key = task.key
        return WorkOrder(
            job=str(self._job_folder(key)),
            folder=str(self._store.folder(key)),
            global_in=str(self.blobs.path(task.global_in.blob.sha256)),
            local_in=str(self.blobs.path(task.local_in.blob.sha256)),
            global_root=task.global_in.root,
            local_root=task.local_in.root,
            round=key.round,
            first=task.first,
            count=task.count,
            backend=self._config.backend,
            memory_bytes=self._config.memory_bytes,
            boundaries=self._store.boundaries(key),
            replay=replay,
        )

    def submit(self, work: Work, pause: Callable[[float], object]) -> Verdict | None:
        """Sign a trained share, send its update and local state, and submit it; None where it is held back for good.

        ``pause`` waits for so many seconds before it is submitted.
        """
        delay = self._behaviour.delay(work.task)
        if delay is None:
            return None
        submission = self._signed(work)
        folder, client = self._store.folder(work.key), self._link.client()
        update = client.put_blob(folder / UPDATE)
        local_out = client.put_blob(folder / LOCAL_OUT)
        pause(delay)
        return client.submit_share(replace(submission, update=update, local_out=local_out))

    def _signed(self, work: Work) -> ShareSubmission:
        key, task = work.key, work.task
        leaves = tuple(
            Leaf(each.index, each.step, each.root, each.metrics)
            for each in self._store.boundaries(key)
        )
        claim = ShareClaim(
            order_id=key.order_id,
            attempt=key.attempt,
            round=key.round,
            slot=key.slot,
            issue=key.issue,
            first=task.first,
            count=task.count,
            provider=self._config.key.address,
            global_in=task.global_in.root,
            local_in=task.local_in.root,
            local_out=work.local_out_root,
            segments=len(leaves) - 1,
            trace_root=b"",
            update_root=work.update_root,
            executor_version=claims.EXECUTOR_VERSION,
        )
        hashes = [
            trace_leaf(
                self._chain_id, claim, leaf.index, leaf.step, leaf.boundary_root, leaf.metrics
            )
            for leaf in leaves
        ]
        claim = replace(claim, trace_root=merkle_root(hashes))
        claim = self._behaviour.claim(claim, leaves)
        # Deterministic (RFC 6979): a restart signs the same bytes the same way.
        signature = self._config.key.sign(share_sign_bytes(self._chain_id, claim))
        nothing_yet = BlobRef(bytes(32), 1)
        return ShareSubmission(claim, signature, leaves, nothing_yet, nothing_yet)

    def open(self, key: ShareKey, indices: tuple[int, ...]) -> None:
        """Send the states at boundaries of a share."""
        folder, client = self._store.folder(key), self._link.client()
        for index in indices:
            global_state = client.put_blob(folder / f"{index}.global")
            local_state = client.put_blob(folder / f"{index}.local")
            verdict = client.submit_opening(
                OpeningSubmission(key, index, global_state, local_state)
            )
            if not verdict.accepted:
                raise ProviderError(f"boundary {index} was not taken: {verdict.text}", "")

    def object(self, key: ShareKey) -> None:
        """Object on the chain to a report of the share."""
        ref = ShareRef(key.slot, key.issue)
        me = self._config.key.address
        self._sender.send(MsgObjectReport(me, key.order_id, key.attempt, key.round, ref))

    def claim(self, task: TrainTask) -> None:
        """Hold all that belongs to a share, so that :meth:`forget` deletes what came after it was forgotten."""
        for blob in (task.global_in.blob, task.local_in.blob, *(f.blob for f in task.payload)):
            self.blobs.hold(blob.sha256, _holder(task.key))

    def forget(self, key: ShareKey, last_of_order: bool) -> None:
        """Delete what is on disk of a share, and of its order when no other share needs it."""
        self.blobs.release(_holder(key))
        self._store.forget(key)
        if last_of_order:
            self._forget_order(_order_name(key))

    def sweep(self, state: State) -> None:
        """Delete what a crash has left of shares and orders that are not in the state."""
        for name in self._store.leftovers(state):
            self.blobs.release(f"share/{name}")
        self._store.sweep(state)
        known = {_order_name(work.key) for work in state.works}
        for folder in self._jobs.glob("*"):
            if folder.name not in known:
                self._forget_order(folder.name)

    def _forget_order(self, name: str) -> None:
        self.blobs.release(f"job/{name}")
        shutil.rmtree(self._jobs / name, ignore_errors=True)

    def close(self) -> None:
        """Close the blobs."""
        self.blobs.close()

    def _job_folder(self, key: ShareKey) -> Path:
        return self._jobs / _order_name(key)


def _holder(key: ShareKey) -> str:
    return f"share/{name_of(key)}"


def _order_name(key: ShareKey) -> str:
    return key.order_id.hex()
