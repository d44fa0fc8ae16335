"""A timed trial of a new job on several machines of one owner, with the steps of a trial in one process.

The machines run the first segment of a slot and the first step of the other slots. A process in the sandbox loads the
job with every check before, and computes an update and an aggregation afterwards. Times are those of one core: the
processor time of all members.
"""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

from pol.errors import Stopped
from pol.job.document import GLOBAL_STATE, LOCAL_STATE
from pol.machines.group import Group
from pol.machines.pool import FORM_SECONDS, GroupPool
from pol.replay.trial import TrialRequest, check_payload, guarded, try_ends, try_payload
from pol.work.records import RoundSlot
from pol.work.trials import Trial, TrialTimes


def try_together(pool: GroupPool, request: TrialRequest, ends: float, stop: Event) -> Trial:
    """Try a payload as :func:`pol.replay.trial.try_payload` does.

    Raises PoolError if the machines fail, or do not end before ``ends`` (on the monotonic clock) or ``stop``.
    """
    return guarded(lambda: _try(pool, request, ends, stop))


def _try(pool: GroupPool, request: TrialRequest, ends: float, stop: Event) -> Trial:
    with pool.group(request.directory, try_payload.__name__, lambda _: False, ends, stop) as group:
        found: Trial = pool.ask(check_payload, request, group.spec, timeout=FORM_SECONDS)
        if found.terms != request.terms or found.decline:
            return found
        _begin(pool, group, request, request.slot)
        before = group.cpu_us
        # A panel member hashes the state after every step.
        group.run_segment(RoundSlot(0, request.slot), 0, follow=_pass)
        segment = max(1, group.cpu_us - before)
        with TemporaryDirectory(dir=pool.scratch) as name:
            paths = Path(name) / "end.global", Path(name) / "end.local"
            group.write(*paths)
            for other in request.slots:
                if other != request.slot:
                    _try_step(pool, group, request, other)
            ended: Trial = pool.ask(try_ends, request, *paths, timeout=FORM_SECONDS)
        if not isinstance(ended.times, TrialTimes):
            return ended
        return replace(ended, times=replace(ended.times, segment=segment))


def _pass(_roots: tuple[bytes, bytes]) -> None:
    pass


def _begin(pool: GroupPool, group: Group, request: TrialRequest, slot: int) -> None:
    """Open the first states of a slot."""
    first = request.directory / GLOBAL_STATE
    group.open(first, request.directory / LOCAL_STATE)
    pool.open_slot(group, request.directory, slot, first)


def _try_step(pool: GroupPool, group: Group, request: TrialRequest, slot: int) -> None:
    """Run the first step of a slot that is not timed."""
    _begin(pool, group, request, slot)
    try:
        group.run_step(slot)
    except Stopped as error:
        raise error.within(f"slot {slot}") from None
