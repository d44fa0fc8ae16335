"""The command ``python -m pol.machines CONTROL PARENT FOLDER MEMORY NUMBER PEERS [READ…]``. A group starts its members
with it. PEERS are the other machines and their sockets, such as ``0=7,2=9``.
"""

import sys
from pathlib import Path

from pol.machines.member import main

if __name__ == "__main__":
    control, parent, folder, memory, number, peers, *reads = sys.argv[1:]
    main(
        int(control),
        int(parent),
        Path(folder),
        int(memory),
        int(number),
        {int(other): int(socket) for other, _, socket in (peer.partition("=") for peer in peers.split(",") if peer)},
        [*map(Path, reads)],
    )
