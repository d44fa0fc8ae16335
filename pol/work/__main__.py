"""The command ``python -m pol.work SOCKET PARENT FOLDER MEMORY [READ…]``. A pool starts a worker process with it."""

import sys
from pathlib import Path

from pol.work.worker import main

if __name__ == "__main__":
    descriptor, parent, folder, memory, *reads = sys.argv[1:]
    main(int(descriptor), int(parent), Path(folder), int(memory), [*map(Path, reads)])
