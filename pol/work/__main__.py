"""``python -m pol.replay SOCKET PARENT``: how a pool starts its workers; tasks import ``worker`` by its own name."""

import sys

from pol.work.worker import main

if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
