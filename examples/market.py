"""The job of ``digits.py`` for a cluster of four: ``assay demo`` orders it twice.

    assay job build examples/market.py -o market-job

Each of the four slots takes 16 images per step; after every 40 steps the slots' states are averaged.
"""

import runpy
from dataclasses import replace
from pathlib import Path

from assay import JobSpec


def job() -> JobSpec:
    """Return the job that ``assay job build`` builds."""
    one: JobSpec = runpy.run_path(str(Path(__file__).with_name("digits.py")))["job"]()
    return replace(one, slots=4, batch=16)
