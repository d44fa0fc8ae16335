"""The command ``python -m pol.work SOCKET PARENT FOLDER MEMORY DEVICE [READ…]``, with which a pool starts a worker."""

import sys
from pathlib import Path

from pol.work.worker import main

if __name__ == "__main__":
    descriptor, parent, folder, memory, device, *reads = sys.argv[1:]
    main(int(descriptor), int(parent), Path(folder), int(memory), device, [*map(Path, reads)])
