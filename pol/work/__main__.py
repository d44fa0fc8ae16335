"""``python -m pol.work SOCKET PARENT FOLDER MEMORY``: how a pool starts a worker; tasks import it by its name."""

import sys
from pathlib import Path

from pol.work.worker import main

if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
