"""A driver without a cluster: it does with each task what its own first argument says."""

import os
import pickle
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from pol.work.answers import pack_answer
from pol.work.cluster.dispatch import NodeReport, TaskEnd
from pol.work.cluster.files import run_packed
from pol.work.cluster.messages import DriverReady, NodesSeen, TaskBegan

NODE = NodeReport("aaaa", "10.0.0.2", 4, 1 << 30, "", ())


def main(what: str, descriptor: int) -> None:
    connection: Connection[Any, Any] = Connection(descriptor)
    connection.recv_bytes()
    print(f"ray says {what}", flush=True)
    if what == "wrong token":
        print("gcs_client.cc: Unauthenticated: RPC error: InvalidAuthToken", flush=True)
        connection.recv_bytes()
    if what == "refused":
        connection.send_bytes(pickle.dumps(DriverReady("no such cluster")))
        return
    for message in (DriverReady(""), NodesSeen((NODE,))):
        connection.send_bytes(pickle.dumps(message))
    once = os.path.exists("died")  # noqa: PTH110
    while True:
        task = pickle.loads(connection.recv_bytes())
        if what == "silent":
            continue
        connection.send_bytes(pickle.dumps(TaskBegan(task.number)))
        if what == "dies" or (what == "dies once" and not once):
            open("died", "w").close()  # noqa: PTH123
            os._exit(7)
        if what == "evil":
            connection.send_bytes(pickle.dumps(TaskEnd(task.number, pickle.dumps((True, os.system)), "", "")))
            continue
        if what == "evil message":
            connection.send_bytes(pickle.dumps(os.system))
            continue
        ends: Mapping[str, TaskEnd] = {
            "full": TaskEnd(task.number, b"", "OutOfMemory", "too large"),
            "node": TaskEnd(task.number, pack_answer(True, task.node), "", ""),
            "environment": TaskEnd(task.number, pack_answer(True, sorted(os.environ)), "", ""),
        }
        answer = run_packed(task.packed.data, task.packed.paths)
        connection.send_bytes(pickle.dumps(ends.get(what, TaskEnd(task.number, answer, "", ""))))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
