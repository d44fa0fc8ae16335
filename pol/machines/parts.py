"""The division of the states among the machines of a plan: the machine of a tensor keeps, hashes and writes it."""

from collections.abc import Mapping

from pol.job.document import JobDocument
from pol.split.plan import Plan, Send
from pol.values import TensorSpec


def state_specs_of(document: JobDocument) -> dict[str, TensorSpec]:
    """Return all tensors of both states by the names that they have in the step program."""
    parts = (("global.", document.global_tensors), ("local.", document.local_tensors))
    return {prefix + spec.name: spec for prefix, specs in parts for spec in specs}


def keepers(plan: Plan, document: JobDocument) -> Mapping[str, int]:
    """Return the machine that looks after each tensor of the states.

    It is the home of a tensor that the step changes. Of the other tensors, it is the first machine that reads them.
    """
    readers: dict[int, int] = {}
    for action in plan.actions:
        if isinstance(action, Send):
            readers.setdefault(action.value, action.source)
        else:
            for arg in plan.program.nodes[action.offset].args:
                readers.setdefault(arg, action.machines[0])
    numbers = {spec.name: number for number, spec in enumerate(plan.program.inputs)}
    found = {}
    for name in state_specs_of(document):
        reader = readers.get(numbers.get(name, -1), plan.used[0])
        found[name] = plan.homes.get(name, reader)
    return found
