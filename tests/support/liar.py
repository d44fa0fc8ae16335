"""A machine that computes one operation wrongly, whenever it gets certain operands."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np

from pol.executor.interface import Backend, nothing_reads
from pol.job.program import Program
from pol.ops.product import integer_sums
from pol.replay.operations import OperationRunner, value_hash
from pol.state.arrays import Array, canonical_array
from pol.state.held import Held, on_host


class OperationLiar:
    """Runs every program operation by operation, and changes the first element of one operation's result."""

    name = "numpy"

    def __init__(self, executor: Backend, op: str, operands: tuple[bytes, ...]) -> None:
        self.executor, self.op, self.operands = executor, op, operands
        self._runners: dict[int, OperationRunner] = {}

    integer_sums = staticmethod(integer_sums)

    def compile(self, program: Program, seed: int) -> "LyingProgram":
        return LyingProgram(self, program, seed)

    def runner(self, seed: int) -> OperationRunner:
        """The one runner of a seed, which keeps compiled operations."""
        return self._runners.setdefault(seed, OperationRunner(self, seed))

    def lies(self, op: str, operands: Collection[Array]) -> bool:
        return op == self.op and tuple(map(value_hash, operands)) == self.operands


@dataclass(frozen=True)
class LyingProgram:
    liar: OperationLiar
    program: Program
    seed: int

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        single = tuple(self.program.outputs) == ("result",)
        if not single:
            return self.liar.runner(self.seed).run(self.program, inputs, lambda _: None)
        result = dict(self.liar.executor.compile(self.program, self.seed).run(inputs))
        if self.liar.lies(self.program.nodes[0].op, [inputs[spec.name] for spec in self.program.inputs]):
            changed = np.array(result["result"])
            changed.reshape(-1)[0] += 1
            result["result"] = changed
        return result

    def canonical(
        self,
        inputs: Mapping[str, Held],
        donated: Collection[str] = (),
        release: Callable[[], None] = nothing_reads,
    ) -> dict[str, Array]:
        del donated, release
        given = {name: on_host(held) for name, held in inputs.items()}
        return {name: np.array(canonical_array(value, name)) for name, value in sorted(self.run(given).items())}
