"""Training of a share by several machines of the owner together, segment by segment.

The daemon leads the group (:mod:`pol.machines.group`): it knows a form of the job and the files of states. Processes in
the sandbox read the job, and compute whatever needs whole tensors.
"""

from threading import Event

from pol.errors import ExecutionError, JobError, ReplayError, StateError, StepFailed, Stopped
from pol.machines.pool import GroupPool, Roots
from pol.rules.commitment import boundary_root
from pol.values import f32_bits
from pol.work.places import boundary_step
from pol.work.records import Boundary
from pol.work.shares import SegmentEnd, SegmentTask, train_segment


def train_together(pool: GroupPool, task: SegmentTask, roots: Roots, ends: float, stop: Event) -> SegmentEnd:
    """Train a segment from the states with these roots on a group, and write the states at its end.

    The result is that of :func:`pol.work.shares.train_segment`. Raises PoolError if the machines fail, or if they have
    no time before ``ends`` or ``stop``.
    """
    boundaries: list[Boundary] = []
    losses: list[int] = []
    part = task.part
    try:
        with pool.group(task.job, train_segment.__name__, lambda found: found == roots, ends, stop) as group:
            if group.roots != roots:
                group.open(task.global_in, task.local_in, roots)
            if task.segment == 0:
                boundaries.append(
                    Boundary(
                        index=0,
                        step=boundary_step(group.form, part.round, 0),
                        global_root=roots[0],
                        local_root=roots[1],
                        root=boundary_root(*roots),
                        metrics=(),
                    )
                )
                if part.round == 0:
                    pool.open_slot(group, task.job, part.slot, task.global_in)
            end = group.run_segment(part, task.segment, lambda _, loss: losses.append(f32_bits(loss)))
            group.write(task.global_out, task.local_out)
            boundaries.append(end)
    except Stopped as stopped:
        step = stopped.step if isinstance(stopped, StepFailed) else -1
        return SegmentEnd(tuple(boundaries), tuple(losses), stopped=str(stopped), stop_step=step)
    except (JobError, StateError, ExecutionError, ReplayError) as error:
        return SegmentEnd(refused=str(error))
    return SegmentEnd(tuple(boundaries), tuple(losses))
