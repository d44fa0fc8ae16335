"""What was compiled is remembered, as long as the program lives."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from pol.executor.interface import Compiled
from pol.job.program import Program

Made = TypeVar("Made", bound=Compiled)


class Remembering(ABC, Generic[Made]):
    """A back end that makes each program ready once for a seed; a subclass says how."""

    def __init__(self) -> None:
        self._compiled: WeakKeyDictionary[Program, dict[int, Made]] = WeakKeyDictionary()

    def compile(self, program: Program, seed: int) -> Made:
        """Return the program ready to run with a seed."""
        known = self._compiled.setdefault(program, {})
        if seed not in known:
            known[seed] = self.made(program, seed)
        return known[seed]

    @abstractmethod
    def made(self, program: Program, seed: int) -> Made:
        """Return a program made ready; it holds no reference to the program."""
