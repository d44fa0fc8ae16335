"""Common models, layers, losses and optimizers as small jobs: the rows of ``benchmarks models``."""

from collections.abc import Mapping
from types import MappingProxyType

from benchmarks.catalogue.data import DATA
from benchmarks.catalogue.families import FAMILIES
from benchmarks.catalogue.layers import LAYERS
from benchmarks.catalogue.networks import MODELS
from benchmarks.catalogue.operations import OPERATIONS
from benchmarks.catalogue.packages import PACKAGES
from benchmarks.catalogue.people import PEOPLE
from benchmarks.catalogue.rows import Make
from benchmarks.catalogue.training import TRAINING
from benchmarks.catalogue.updates import UPDATES

CATALOGUE: Mapping[str, Make] = MappingProxyType(
    dict((*LAYERS, *OPERATIONS, *TRAINING, *UPDATES, *DATA, *MODELS, *FAMILIES, *PACKAGES, *PEOPLE))
)
"""Functions that make the jobs, by the name of the row."""
