"""Runs a node: ``python -m tests.support.node_child HOME CONSENSUS``; prints what it is ready with, as JSON."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from chain.app.node import Consensus, NodeConfig, NodeReady, run_node


def announce(ready: NodeReady) -> None:
    sys.stdout.write(json.dumps(asdict(ready)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    run_node(NodeConfig.of_home(Path(sys.argv[1]), Consensus(sys.argv[2])), announce)
