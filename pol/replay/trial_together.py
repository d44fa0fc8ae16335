"""A timed trial of a new job on several machines of one owner, with the steps of a trial in one process.

The machines run the first segment of a slot, the first step of the other slots, an update and an aggregation. Each of
them has only its own tensors. A process in the sandbox checks the job before. Times are those of one core: the
processor time of all members.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

from pol.errors import Stopped
from pol.job.paths import GLOBAL_STATE, LOCAL_STATE
from pol.machines.form import CLOSE, OUTER
from pol.machines.group import Group
from pol.machines.pool import FORM_SECONDS, GroupPool
from pol.replay.trial import TrialRequest, check_payload, guarded, measure_core, shortest, try_payload
from pol.work.records import RoundSlot
from pol.work.trials import Trial, TrialTimes


def try_together(pool: GroupPool, request: TrialRequest, ends: float, stop: Event) -> Trial:
    """Try a payload as :func:`pol.replay.trial.try_payload` does.

    Raises PoolError if the machines fail, or do not end before ``ends`` (on the monotonic clock) or ``stop``.
    """
    return guarded(lambda: _try(pool, request, ends, stop))


def _try(pool: GroupPool, request: TrialRequest, ends: float, stop: Event) -> Trial:
    if request.hardware:
        # Segments in hardware arithmetic are computed by one machine.
        alone: Trial = pool.ask(try_payload, request, timeout=ends - time.monotonic())
        return alone
    with pool.group(request.directory, try_payload.__name__, lambda _: False, ends, stop) as group:
        found: Trial = pool.ask(check_payload, request, group.spec, timeout=ends - time.monotonic())
        if found.terms != request.terms or found.decline:
            return found
        speed: int = pool.ask(measure_core, request.engine, timeout=FORM_SECONDS)
        _begin(pool, group, request, request.slot)
        before = group.cpu_us
        # A panel member hashes the state after every step.
        group.run_segment(RoundSlot(0, request.slot), 0, follow=_pass)
        segment = max(1, group.cpu_us - before)
        with TemporaryDirectory(dir=pool.scratch) as name:
            folder = Path(name)
            paths = folder / "end.global", folder / "end.local"
            group.write(*paths)
            for other in request.slots:
                if other != request.slot:
                    _try_step(pool, group, request, other)
            first, update = request.directory / GLOBAL_STATE, folder / "update"
            close = _time(group, CLOSE, (first, *paths))
            with update.open("xb") as file:
                file.writelines(group.made(0))
            outer = _time(group, OUTER, (first, *[update] * group.form.slots))
        times = TrialTimes(segment=segment, outer=outer, speed=speed, close=close if request.terms.close_work else 0)
        return Trial(terms=request.terms, times=times)


def _time(group: Group, program: str, reads: Sequence[Path]) -> int:
    """Run a program at the end of a round a few times. Return its shortest time in microseconds of one core."""

    def run() -> None:
        group.make(program, reads)

    return shortest(run, lambda: group.cpu_us / 1e6)[1]


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
