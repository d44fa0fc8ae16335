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
from benchmarks.catalogue.rows import Make, Row
from benchmarks.catalogue.training import TRAINING
from benchmarks.catalogue.updates import UPDATES

KINDS: Mapping[str, tuple[Row, ...]] = MappingProxyType(
    {
        "Layers": LAYERS,
        "Operations and losses": OPERATIONS,
        "Training": TRAINING,
        "Update rules and phases": UPDATES,
        "Data": DATA,
        "Networks": MODELS,
        "More of transformers and PEFT": FAMILIES,
        "Other packages": PACKAGES,
        "Models as people write them": PEOPLE,
    }
)
"""Rows by their kind, in the order of the page."""
CATALOGUE: Mapping[str, Make] = MappingProxyType(dict(row for rows in KINDS.values() for row in rows))
"""Functions that make the jobs, by the name of the row."""
