"""Who may read which blob: what a task, an opening or a result named to somebody, for a while."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import Lock

from link.types import BlobRef

GRANT_SECONDS = 3_600.0
GRANTS_MAX = 100_000


class Grants:
    """Grants by (address, digest), the oldest forgotten first: whoever lost one asks for its task again."""

    def __init__(self, most: int = GRANTS_MAX, now: Callable[[], float] = time.monotonic) -> None:
        """Keep at most ``most`` grants."""
        self._most, self._now = most, now
        self._until: OrderedDict[tuple[str, bytes], float] = OrderedDict()
        self._lock = Lock()

    def give(self, address: str, blobs: Iterable[BlobRef]) -> None:
        """Let ``address`` read these blobs."""
        until = self._now() + GRANT_SECONDS
        with self._lock:
            for blob in blobs:
                self._until[address, blob.sha256] = until
                self._until.move_to_end((address, blob.sha256))
            while len(self._until) > self._most:
                self._until.popitem(last=False)

    def holds(self, address: str, digest: bytes) -> bool:
        """Tell whether ``address`` may read the blob now."""
        with self._lock:
            return self._until.get((address, digest), 0.0) > self._now()
