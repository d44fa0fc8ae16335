"""The process that keeps the gateway running: ``python -m chain.app.rest SOCKET NODE ORIGINS``.

It starts the worker again if it has ended. It imports almost nothing, so it needs little memory. It ends with the node,
and the worker ends with it.
"""

import sys
import time
from typing import Final

from host.process import start_child

_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
_SOUND_SECONDS: Final = 60.0
"""Time (s) after which a worker counts as sound, so that the next pause is short again."""


def main(arguments: list[str]) -> None:
    """Start the worker, and start it again each time that it ends."""
    pause = _PAUSE_SECONDS
    while True:
        began = time.monotonic()
        worker = start_child([sys.executable, "-m", "chain.app.rest.worker", *arguments], pass_fds=[int(arguments[0])])
        code = worker.wait()
        if time.monotonic() - began > _SOUND_SECONDS:
            pause = _PAUSE_SECONDS
        sys.stderr.write(f"the REST gateway has ended ({code}); it starts again in {pause:.0f} s\n")
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


if __name__ == "__main__":
    main(sys.argv[1:])
