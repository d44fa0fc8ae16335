"""Workers of a stranger who has got hold of one: ``python -m … METHOD PARENT FOLDER MEMORY READ…``."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from compute_provider.work import worker

if TYPE_CHECKING:
    from compute_provider.work.worker import Produced, Task
    from pol.work.segments import SlotState


def _reach(task: "Task", index: int, start: "SlotState") -> "Produced":
    """Write past the daemon to where the states of shares are."""
    (Path(task.order.folder) / "0.global").write_bytes(b"")
    return worker.honest(task, index, start)


def _link(task: "Task", index: int, start: "SlotState") -> "Produced":
    """Have the daemon keep, and show to whoever asks for a state, a file that it can read."""
    made = worker.honest(task, index, start)
    # Past its last boundary: the daemon may not have fetched the honest ones yet.
    index = task.segments + 1
    for name in worker.boundary_files(index):
        # A link to a file of the owner's would be better, but the sandbox forbids it.
        (task.folder / name).mkdir()
    message = f'{{"boundary": {{"index": {index}}}}}\n'
    os.write(sys.stdout.fileno(), message.encode())
    return made


def _double(task: "Task", index: int, start: "SlotState") -> "Produced":
    """Say twice that it is done."""
    task.out.write('{"stopped": "here"}\n')
    return worker.honest(task, index, start)


def _see(task: "Task", index: int, start: "SlotState") -> "Produced":
    """Read the worker's log, which lies where the shares of all orders do."""
    (task.folder.parent / "worker.log").read_bytes()
    return worker.honest(task, index, start)


_METHODS = {"none": worker.honest, "reach": _reach, "link": _link, "see": _see, "double": _double}

if __name__ == "__main__":
    method, *rest = sys.argv[1:]
    worker.main(rest, _METHODS[method])
