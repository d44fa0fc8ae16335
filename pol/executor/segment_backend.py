"""The choice between exact and hardware arithmetic for the segments of a leg.

It is the only way from the tier of a leg to hardware arithmetic. ``close``, ``outer``, updates and aggregations are
always exact, so they never use it.
"""

from pol.errors import ExecutionError
from pol.executor.backend import backend
from pol.executor.hardware import FORWARD, REVERSED, Hardware
from pol.executor.interface import Backend
from pol.executor.names import Engine
from pol.job.document import JobDocument

NO_TORCH = "this machine has no torch, which hardware arithmetic needs; install it: pip install 'assay[train]'"


def segment_backend(document: JobDocument, engine: Engine, hardware: bool, *, other: bool = False) -> Backend:
    """Return the back end that trains the segments of a leg, on the device and with the threads of an engine.

    ``hardware`` says whether the tier of the leg has hardware arithmetic. A job without the part ``tolerance`` is
    trained exactly even then. With ``other``, hardware arithmetic sums in another order, as another honest machine
    might. Raises ExecutionError if this machine cannot compute so.
    """
    if not hardware or document.tolerance is None:
        return backend(engine)
    chosen = Hardware(
        precision=document.tolerance.precision,
        device=engine.device,
        order=REVERSED if other else FORWARD,
        threads=engine.threads,
    )
    chosen.check()
    try:
        from pol.executor.hardware_backend import hardware_backend
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ExecutionError("precision", NO_TORCH) from None
    return hardware_backend(chosen)
