"""SIGTERM and SIGINT as an ordinary call.

A Python signal handler may run while its thread holds a lock that it needs itself, so the handlers do nothing. The
interpreter writes the signal's number into a pipe, and a thread that reads the pipe makes the call.
"""

import os
import signal
from collections.abc import Callable
from threading import Thread

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def on_stop_signal(call: Callable[[], None]) -> None:
    """Call ``call`` once for each SIGTERM or SIGINT, in a thread of its own. Main thread only, once per process."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in _SIGNALS:
        signal.signal(number, lambda *_: None)
    Thread(target=_forward, args=(reader, call), name="stop-signals", daemon=True).start()


def _forward(reader: int, call: Callable[[], None]) -> None:
    while data := os.read(reader, 1):
        if data[0] in _SIGNALS:
            call()
