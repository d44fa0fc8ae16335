"""The command ``python -m pol.work SOCKET PARENT FOLDER MEMORY``. A pool starts a worker process with it."""

import sys
from pathlib import Path

from pol.work.worker import main

if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
