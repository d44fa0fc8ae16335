"""The tasks of a provider and the openings for seats, both derived from the record alone."""

from collections.abc import Callable
from dataclasses import replace

from domain.legs.records import LegState
from domain.proof.queries import OrderResponse
from domain.proof.records import AuditKind, AuditPlace, ShareState
from link.types import (
    INDICES_MAX,
    AuditOpening,
    OpenedState,
    OpenTask,
    ShareDelivery,
    StateRef,
    TrainTask,
    UpdateRef,
    not_ready,
)
from pol.rules.inclusion import task_sign_bytes
from validator.decide.records import (
    LocalOrder,
    LocalRound,
    SlotWork,
    WorkAt,
    accepted_works,
    share_key,
)
from validator.decide.retention import wanted_of_provider
from validator.decide.rounds import boundaries_to_open
from validator.decide.traces import leaf_with_path, metrics_at
from validator.decide.view import Panels

RETRY_MS = 500


def train_tasks(local: LocalOrder, on_chain: OrderResponse, provider: str, clock: int) -> list[TrainTask]:
    """Return the shares that ``provider`` has to train now. The tasks are not signed yet (:func:`sign_task`)."""
    leg = on_chain.leg(local.leg)
    if leg is None or leg.state != LegState.RUNNING:
        return []
    current = local.find(leg.round)
    if current is None:
        return []
    return [
        TrainTask(
            key=share_key(local, current, work),
            global_in=current.global_in,
            local_in=work.local_in,
            payload=local.payload.files,
            seconds_left=max(0, work.answer_by - clock),
            every=work.anchors[0] if work.anchors else 0,
            deadline=work.answer_by,
            multiple=work.backing.multiple,
            cover=work.backing.cover,
        )
        for work in current.works
        if work.provider == provider and work.packet is None and not work.secret and not work.verdict
    ]


def sign_task(task: TrainTask, provider: str, chain_id: str, sign: Callable[[bytes], bytes]) -> TrainTask:
    """Return a task with this validator's signature, with which its provider can include the share."""
    document = task_sign_bytes(chain_id, task.key, provider, task.every, task.deadline, task.multiple, task.cover)
    return replace(task, signature=sign(document))


def open_tasks(local: LocalOrder, on_chain: OrderResponse, panels: Panels, provider: str) -> list[OpenTask]:
    """Return the boundaries whose states ``provider`` has to upload.

    A provider cannot see whether a boundary was drawn on the chain or chosen by the validator.
    """
    wanted = wanted_of_provider(local, panels)
    own = {
        (current.round, work.slot, work.issue): WorkAt(local, current, work)
        for current in local.rounds
        for work in current.works
        if work.provider == provider
    }
    for share in on_chain.shares:
        key = share.key
        at = own.get((key.round, key.slot, key.issue)) if key.leg == local.leg else None
        if at is None or not share.is_drawn:
            continue
        work = at.work
        if work.verdict or share.state != ShareState.COMMITTED:
            continue
        arrived = {opening.index for opening in work.openings}
        missing = boundaries_to_open(at.current, work, share) - arrived
        if missing:
            wanted.setdefault((key.round, key.slot, key.issue), set()).update(missing)
    tasks: list[OpenTask] = []
    for (round, slot, issue), indices in sorted(wanted.items()):
        at = local.at(round, slot, issue)
        if at is not None and at.work.provider == provider:
            # The other boundaries are asked for once these have arrived.
            first = tuple(sorted(indices)[:INDICES_MAX])
            tasks.append(OpenTask(at.key, first))
    return tasks


def audit_opening(local: LocalOrder, round: int, place: AuditPlace, *, with_end: bool = False) -> AuditOpening:
    """Return the opening that a seat needs to recompute a place.

    If some states are missing, the opening is not ready. An encrypted chunk is not in the record
    (:func:`validator.work.sealing.open_for_seat`). If ``with_end``, a segment is opened with its end states, too,
    unless the share stops in it.
    """
    current = local.find(round)
    if current is None:
        return not_ready(RETRY_MS)
    if place.kind == AuditKind.AGGREGATION:
        return _aggregation(local, current)
    work = current.find(place.slot, place.issue)
    if work is None or work.packet is None:
        return not_ready(RETRY_MS)
    segments = len(work.packet.boundaries)
    ends = (place.segment, place.segment + 1)
    if place.kind == AuditKind.UPDATE:
        ends = (0, segments)
    has_end = with_end and place.kind is AuditKind.SEGMENT and ends[1] <= segments
    shown = ends if place.kind == AuditKind.UPDATE or has_end else ends[:1]
    states = [_opened(current, work, work.packet, index) for index in shown]
    # Boundary 0 has no leaf, because its root is on the chain. No leaf comes after the boundary where the job stopped.
    leaves = [leaf_with_path(work.packet, index) for index in ends if 0 < index <= segments]
    if any(state is None for state in states):
        return not_ready(RETRY_MS)
    return AuditOpening(
        ready=True,
        retry_after_ms=0,
        payload=local.payload.files,
        leaves=tuple(leaves),
        states=tuple(state for state in states if state is not None),
        updates=(),
        local_out=_local_out(work.packet),
    )


def end_opening(local: LocalOrder, round: int, place: AuditPlace) -> AuditOpening:
    """Return the states at the end of a segment, for a seat that compares them with its own."""
    current = local.find(round)
    work = current.find(place.slot, place.issue) if current is not None else None
    state = None
    if current is not None and work is not None and work.packet is not None:
        state = _opened(current, work, work.packet, place.segment + 1)
    return not_ready(RETRY_MS) if state is None else replace(not_ready(0), ready=True, states=(state,))


def _local_out(packet: ShareDelivery) -> StateRef | None:
    blob = packet.local_out
    return None if blob is None else StateRef(packet.roots.local_out, blob)


def _aggregation(local: LocalOrder, current: LocalRound) -> AuditOpening:
    initial = local.payload.initial_local
    packets = [(work, work.packet) for work in accepted_works(current)]
    if initial is None or any(packet is None for _, packet in packets):
        return not_ready(RETRY_MS)
    return AuditOpening(
        ready=True,
        retry_after_ms=0,
        payload=local.payload.files,
        leaves=(),
        states=(OpenedState(index=0, global_state=current.global_in.blob, local_state=initial.blob, metrics=()),),
        updates=tuple(
            UpdateRef(work.slot, StateRef(packet.roots.update_root, packet.update))
            for work, packet in packets
            if packet is not None and packet.update is not None
        ),
        local_out=None,
    )


def _opened(current: LocalRound, work: SlotWork, packet: ShareDelivery, index: int) -> OpenedState | None:
    if index == 0:
        return OpenedState(index=0, global_state=current.global_in.blob, local_state=work.local_in.blob, metrics=())
    opening = next((known for known in work.openings if known.index == index and known.verified), None)
    if opening is None:
        return None
    return OpenedState(
        index=index,
        global_state=opening.global_state,
        local_state=opening.local_state,
        metrics=metrics_at(packet, index),
    )
