"""Hardware arithmetic: the same programs, computed by the ordinary kernels of torch, with whatever rounding they have.

Its results depend on the machine, so they are compared within thresholds (``pol/rules/tolerance.py``) and never by
their hashes. Nothing that compares hashes can choose it: it is not an :class:`pol.executor.names.Engine`, and
:func:`pol.executor.backend.backend` never returns it.
"""

from dataclasses import dataclass
from typing import Final

from host.devices.device import CPU
from pol.errors import ExecutionError
from pol.executor.names import TORCH, Engine
from pol.rules.tolerance import FP32, PRECISIONS, TF32

FORWARD, REVERSED, HALVES = "forward", "reversed", "halves"
ORDERS: Final = (FORWARD, REVERSED, HALVES)
"""Orders of summation of products and sums: as torch does it; from the last summand to the first; and the second half
added to the first. They stand for machines that this one is not.
"""


@dataclass(frozen=True, slots=True)
class Hardware:
    """The choice of a hardware arithmetic: the format of products, a device, an order of summation, and threads.

    ``threads`` is the number of threads of the process; 0 leaves it to torch.
    """

    precision: str = FP32
    device: str = CPU
    order: str = FORWARD
    threads: int = 0

    def check(self) -> None:
        """Raise ExecutionError if no machine can compute so."""
        Engine(name=TORCH, device=self.device, threads=self.threads).check()
        if self.precision not in PRECISIONS:
            raise ExecutionError(
                "precision", f"there is no precision {self.precision!r}; use one of {', '.join(PRECISIONS)}"
            )
        if self.precision == TF32 and self.device == CPU:
            raise ExecutionError("precision", "processors have no tf32; use fp32 or bf16, or a GPU")
        if self.order not in ORDERS:
            raise ExecutionError("order", f"there is no order {self.order!r}; use one of {', '.join(ORDERS)}")

    def __str__(self) -> str:
        """Return the choice in words, for example ``fp32 on cuda, sums reversed``."""
        words = f"{self.precision} on {self.device}"
        if self.threads:
            words += f", {self.threads} thread{'s' if self.threads > 1 else ''}"
        return words if self.order == FORWARD else f"{words}, sums {self.order}"
