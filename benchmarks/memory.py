"""The memory that training adds to a process that has not loaded the job yet, in one process per executor.

All parts are counted: data, states, arenas, activations and temporary copies.
"""

import json
import subprocess
import sys
from pathlib import Path

from pol.executor.names import Engine

AVAILABLE = sys.platform == "linux"
MEASURED_STEPS = 3
_ROOT = Path(__file__).parents[1]


def growth(model: str, executor: str, folder: Path, threads: int) -> float:
    """Return the growth (MiB) of a process that trains the job of ``model`` in ``folder``."""
    command = [sys.executable, "-m", "benchmarks.memory", model, executor, str(folder)]
    done = subprocess.run([*command, str(threads)], cwd=_ROOT, check=True, stdout=subprocess.PIPE, text=True)
    mebibytes: float = json.loads(done.stdout)
    return mebibytes


def memory(field: str, process: int | str = "self") -> int:
    """Return the current (``VmRSS``) or peak (``VmHWM``) resident memory of a process in bytes (proc_pid_status(5))."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def reset_peak() -> None:
    """Reset ``VmHWM`` to the current resident memory (proc_pid_clear_refs(5))."""
    Path("/proc/self/clear_refs").write_text("5")


def main(model: str, executor: str, folder: Path, threads: int) -> None:
    """Train some steps, and print the growth (MiB) of this process up to its peak memory."""
    from benchmarks.networks import MODELS
    from benchmarks.steps import EAGER, STEPS, eager, exact
    from benchmarks.threads import limited
    from pol.executor.backend import backend
    from pol.job.load import load_job

    steps = STEPS[model]
    with limited(threads):
        if executor == EAGER:
            import torch

            # The first backward pass loads parts of torch, which are not counted.
            one = torch.ones(1, requires_grad=True)
            torch.autograd.grad(one.sum(), [one])
        else:
            backend(Engine(executor))
        before = memory("VmRSS")
        # The peak of the imports may be higher than the peak of the training.
        reset_peak()
        work = eager(MODELS[model](steps), steps) if executor == EAGER else exact(load_job(folder), executor)
        for number in range(MEASURED_STEPS):
            work(number)
    json.dump((memory("VmHWM") - before) / 2**20, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
