"""Runs a node: ``python -m tests.support.node_child HOME CONSENSUS [SECONDS]``; prints what it is ready with, as JSON.

SECONDS is how long it waits for ports that are taken.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from chain.app import ports
from chain.app.node import Consensus, NodeConfig, NodeReady, run_node


def announce(ready: NodeReady) -> None:
    sys.stdout.write(json.dumps(asdict(ready)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if len(sys.argv) > 3:
        ports._SECONDS = float(sys.argv[3])
    run_node(NodeConfig.of_home(Path(sys.argv[1]), Consensus(sys.argv[2])), announce)
