"""Training of a share by several machines of the owner together, segment by segment.

The daemon leads the group (:mod:`pol.machines.group`): it knows a form of the job and the files of states, and no
process loads a whole state.
"""

from threading import Event

from pol.errors import ExecutionError, JobError, ReplayError, StateError, StepFailed, Stopped
from pol.machines.form import CLOSE
from pol.machines.pool import GroupPool, Roots
from pol.values import f32_bits
from pol.work.records import Boundary
from pol.work.shares import SegmentEnd, SegmentTask, UpdateEnd, UpdateTask, compute_update, train_segment


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
                boundaries.append(group.opening_boundary(part, roots))
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


def close_together(pool: GroupPool, task: UpdateTask, ends: float, stop: Event) -> UpdateEnd:
    """Compute the update of a share on a group, and write it and the slot's local state after the round.

    The result is that of :func:`pol.work.shares.compute_update`. Raises PoolError as :func:`train_together` does.
    """
    reads = task.opening, task.global_end, task.local_end
    try:
        with pool.group(task.job, compute_update.__name__, lambda _: False, ends, stop) as group:
            if group.hash(CLOSE, reads) != (task.opening_root, *task.roots):
                return UpdateEnd(refused="states do not have the roots that the chain or an earlier task names")
            update_root, local_root = group.make(CLOSE, reads)
            for index, path in enumerate((task.update, task.local_out)):
                with path.open("xb") as file:
                    file.writelines(group.made(index))
    except Stopped as stopped:
        return UpdateEnd(stopped=str(stopped))
    except (JobError, StateError, ExecutionError, ReplayError) as error:
        return UpdateEnd(refused=str(error))
    return UpdateEnd(update_root=update_root, local_out_root=local_root)
