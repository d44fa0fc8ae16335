"""The mutants, by the part of the project that they change: ``chain_staking`` has those of
``chain/state_machine/staking``, ``pol_work`` those of ``pol/work``. Those of ``chain/state_machine/proof`` are divided.

Each change of the rules adds those that its tests are meant to notice.
"""

from importlib import import_module
from itertools import chain
from pkgutil import iter_modules

from tests.mutants.mutant import Mutant

PARTS = tuple(import_module(f"{__name__}.{part.name}") for part in iter_modules(__path__))
MUTANTS: tuple[Mutant, ...] = tuple(chain.from_iterable(part.MUTANTS for part in PARTS))
