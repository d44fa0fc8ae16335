"""Virtual machines in one process, which run a plan, by default with the reference, and count what they send.

Each machine has values of its own, and computes and sends only these. So a run also shows that the plan sends
everything that is needed.
"""

from collections import defaultdict, deque
from collections.abc import Mapping
from typing import TypeVar

from pol.executor.interface import Backend
from pol.executor.numpy_backend import NumpyBackend
from pol.split.exchanges import In, Message, Moves, Out, forms_of
from pol.split.member import Member
from pol.split.plan import Plan
from pol.state.arrays import Array

T = TypeVar("T")


class VirtualLinks:
    """The links between virtual machines: queues of messages, and counts of what was sent.

    ``sent`` and ``received`` have the bytes of each machine, and ``messages`` the number of messages.
    """

    def __init__(self, machines: int) -> None:
        self.sent = [0] * machines
        self.received = [0] * machines
        self.messages = 0

    def run(self, moves: Mapping[int, Moves[T]]) -> dict[int, T]:
        """Run the parts of machines, by number, until all have ended. Return what each of them returns."""
        queues: dict[tuple[int, int], deque[Message]] = defaultdict(deque)
        results: dict[int, T] = {}
        awaited: dict[int, In | None] = dict.fromkeys(moves)
        while len(results) < len(moves):
            before = self.messages, len(results), tuple(map(len, queues.values()))
            for machine, own in moves.items():
                if machine not in results:
                    self._go_on(machine, own, queues, awaited, results)
            if before == (self.messages, len(results), tuple(map(len, queues.values()))):
                raise LookupError(f"machines wait for messages that were not sent: {awaited}")
        if any(queues.values()):
            raise LookupError("a message was not awaited")
        return results

    def _go_on(
        self,
        machine: int,
        own: Moves[T],
        queues: dict[tuple[int, int], deque[Message]],
        awaited: dict[int, In | None],
        results: dict[int, T],
    ) -> None:
        """Let a machine go on until it waits for a message that was not sent yet, or ends."""
        given: Message | None = None
        while True:
            move = awaited[machine]
            if move is not None:
                queue = queues[move.source, machine]
                if not queue:
                    return
                given, awaited[machine] = queue.popleft(), None
                if forms_of(given) != move.forms:
                    raise LookupError(f"machine {machine} waits for {move.forms}, not for {forms_of(given)}")
            try:
                step = next(own) if given is None else own.send(given)
            except StopIteration as end:
                results[machine] = end.value
                return
            if isinstance(step, Out):
                self.deliver(machine, step.to, step.message)
                queues[machine, step.to].append(step.message)
                given = ()
            else:
                awaited[machine] = step

    def deliver(self, source: int, target: int, message: Message) -> None:
        """Count a message."""
        if source == target:
            raise LookupError(f"machine {source} sends itself a message")
        size = sum(part.nbytes for part in message)
        self.sent[source] += size
        self.received[target] += size
        self.messages += 1


class VirtualMachines:
    """The machines of a plan, with the links between them."""

    def __init__(
        self, plan: Plan, seed: int, links: VirtualLinks | None = None, backend: Backend | None = None
    ) -> None:
        backend = backend or NumpyBackend()
        self.links = links or VirtualLinks(len(plan.machines))
        self._members = [Member(plan, machine, seed, backend) for machine in plan.used]

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs of the program by name, each from the machine that returns it."""
        given = {member.machine: member.run({name: inputs[name] for name in member.inputs}) for member in self._members}
        found = self.links.run(given)
        outputs = {name: value for own in found.values() for name, value in own.items()}
        return dict(sorted(outputs.items()))
