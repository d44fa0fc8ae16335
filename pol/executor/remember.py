"""A cache of compiled programs, each kept as long as its program exists."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from pol.executor.interface import Compiled
from pol.job.program import Program

Made = TypeVar("Made", bound=Compiled)


class Remembering(ABC, Generic[Made]):
    """A back end that compiles each program once per seed. A subclass defines how a program is compiled."""

    def __init__(self) -> None:
        self._compiled: WeakKeyDictionary[Program, dict[int, Made]] = WeakKeyDictionary()

    def compile(self, program: Program, seed: int) -> Made:
        """Return the program compiled for a seed."""
        known = self._compiled.setdefault(program, {})
        if seed not in known:
            known[seed] = self.prepare(program, seed)
        return known[seed]

    @abstractmethod
    def prepare(self, program: Program, seed: int) -> Made:
        """Compile a program for a seed. The result may not hold a reference to the program."""
