"""The making of a leader's record of a job: a plan, and the division of the states among its machines.

The machine of a tensor keeps, hashes and writes it. Daemons name functions of this file as tasks of processes in the
sandbox, and do not run them, so NumPy is imported only in the functions.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from pol.errors import ExecutionError
from pol.machines.form import CLOSE, GLOBAL, LOCAL, OUTER, FileForm, FormOf, GroupSpec, SlotForm, named_tensors
from pol.values import TensorSpec

if TYPE_CHECKING:
    from pol.job.document import Job, JobDocument
    from pol.split.plan import Plan


def state_specs_of(document: "JobDocument") -> dict[str, TensorSpec]:
    """Return all tensors of both states by the names that they have in the step program."""
    return named_tensors(document.global_tensors, document.local_tensors)


def step_files(plan: "Plan", document: "JobDocument") -> tuple[FileForm, FileForm]:
    """Return the machines of the tensors of the global and of the local state in a step.

    The keeper of a tensor is its home if the step changes it. Of the other tensors, it is the first machine that reads
    them. Those that no node reads go where the fewest bytes are kept.
    """
    readers = _readers(plan)
    numbers = {spec.name: number for number, spec in enumerate(plan.program.inputs)}
    specs = state_specs_of(document)
    kept, needed = dict(plan.homes), dict[str, set[int]]()
    for name in specs:
        number = numbers.get(name, -1)
        reading = [machine for machine in readers.get(number, ()) if machine in plan.starts_at(number)]
        needed[name] = set(reading)
        if reading:
            kept.setdefault(name, reading[0])
    loads = dict.fromkeys(plan.used, 0)
    for name in specs.keys() & kept.keys():
        loads[kept[name]] += specs[name].type.size
    for name in sorted(specs.keys() - kept.keys(), key=lambda name: (-specs[name].type.size, name)):
        kept[name] = min(loads, key=lambda machine: (loads[machine], machine))
        loads[kept[name]] += specs[name].type.size

    def file(prefix: str, own: Sequence[TensorSpec]) -> FileForm:
        names = [prefix + spec.name for spec in own]
        return FileForm(
            keepers=tuple(kept[name] for name in names),
            readers=tuple(tuple(sorted({kept[name], *needed[name]})) for name in names),
        )

    return file(GLOBAL, document.global_tensors), file(LOCAL, document.local_tensors)


def _readers(plan: "Plan") -> dict[int, list[int]]:
    """Return the machines that use each value for a node, or send it to others."""
    from pol.split.plan import Send

    readers: dict[int, list[int]] = {}
    for action in plan.actions:
        if isinstance(action, Send):
            readers.setdefault(action.value, []).append(action.source)
        else:
            for arg in plan.program.nodes[action.offset].args:
                readers.setdefault(arg, []).extend(action.machines)
    return readers


def data_readers(plan: "Plan") -> tuple[int, ...]:
    """Return the machines that read rows of the data in a step."""
    program, readers = plan.program, _readers(plan)
    rows = [number for number, spec in enumerate(program.inputs) if spec.name in plan.batch]
    found = {machine for number in rows for machine in readers.get(number, ())}
    return tuple(sorted(found | {plan.ends_at[name] for name, number in program.outputs.items() if number in rows}))


def forms_of(job: "Job") -> FormOf:
    """Return the function that plans a job which this process has read."""
    from pol.machines.ends import end_of

    def form(spec: GroupSpec) -> SlotForm:
        document = job.document
        plan = plan_of(document, spec)
        machines = len(plan.used)
        return SlotForm(
            job_id=job.id,
            rounds=document.rounds,
            slots=document.slots,
            share_segments=document.share_segments,
            round_steps=document.round_steps,
            segment_steps=document.segment_steps,
            metrics=tuple(document.metrics),
            global_tensors=tuple(document.global_tensors),
            local_tensors=tuple(document.local_tensors),
            has_own_states=bool(document.slot_states_size),
            stages=len(plan.stages),
            rows=len(plan.stages[0]),
            parts=plan.parts,
            update_tensors=tuple(job.update_tensors),
            used=tuple(plan.used),
            data=data_readers(plan),
            files=step_files(plan, document),
            close=end_of(document, CLOSE, machines, spec.machine).form,
            outer=end_of(document, OUTER, machines, spec.machine).form,
        )

    return form


def plan_of(document: "JobDocument", spec: GroupSpec) -> "Plan":
    """Return the plan of a group. Raises ExecutionError if there are no such stages and rows."""
    from pol.split.costs import best_plan

    try:
        return best_plan(document.step, [spec.machine] * spec.machines, spec.shape)
    except ValueError as error:
        raise ExecutionError("machines", str(error)) from None


# --- tasks of processes in the sandbox --------------------------------------------------------------


@lru_cache(maxsize=4)
def job_form(directory: Path, spec: GroupSpec) -> SlotForm:
    """Read a job, and plan it for a group. Raises JobError, and ExecutionError if there are no such stages and rows."""
    from pol.job.load import load_job

    return forms_of(load_job(directory, with_states=False).job)(spec)


def write_own_state(directory: Path, slot: int, to: Path) -> bytes:
    """Write the local state of its own with which a slot begins, and return the root that it must have; empty if the
    slot has none.

    The state is copied a piece at a time, and the machines that open it compare its root. Raises JobError.
    """
    from pol.job.load import load_document
    from pol.job.slots import open_slots

    states = open_slots(directory, load_document(directory).document)
    return b"" if states is None or slot == 0 else states.copy(slot, to)
