"""What runs programs: a back end makes of a program what is ready to run."""

from collections.abc import Mapping
from typing import Protocol

from pol.job.program import Program
from pol.state.arrays import Array


class Compiled(Protocol):
    """A program made ready for one seed; how many nodes it runs at once is its own matter."""

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the outputs by name; all inputs are there, with the dtypes and shapes of the program."""


class Backend(Protocol):
    """A way to run programs; every back end gives the same bits."""

    @property
    def name(self) -> str:
        """``numpy`` or ``torch``."""

    def compile(self, program: Program, seed: int) -> Compiled:
        """Return the program ready to run; what was compiled is remembered as long as the program lives."""
