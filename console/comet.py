"""The CometBFT of a node, asked for what the node does not tell; it may be slow, or answer without end."""

import json
import time
from typing import Any, Final

import requests
from urllib3.exceptions import HTTPError

CONNECT_SECONDS: Final = 1.0
_ANSWER_SECONDS: Final = 2.0
_PART_BYTES: Final = 2**18
SHORT_BYTES: Final = 2**18


class Comet:
    """Asks the CometBFT at a URL, or nobody where there is none; for one thread at a time."""

    def __init__(self, url: str) -> None:
        """``url`` is empty where it is not known."""
        self.url = url
        self._session = requests.Session()
        self._session.trust_env = False

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def ask(self, path: str, *names: str, most: int = SHORT_BYTES) -> Any:
        """Return what stands under those names of the answer; None where nobody can be asked, or it is too long."""
        if not self.url:
            return None
        try:
            found = json.loads(self._read(f"{self.url}/{path}", most))["result"]
            for name in names:
                found = found[name]
        except (requests.RequestException, HTTPError, ValueError, LookupError, TypeError):
            return None
        return found

    def _read(self, url: str, most: int) -> bytes:
        """Return what stands at an address; ValueError where it is long, or comes in drops."""
        found, ends = b"", time.monotonic() + _ANSWER_SECONDS
        with self._session.get(url, timeout=CONNECT_SECONDS, stream=True) as answer:
            while part := answer.raw.read1(_PART_BYTES):
                found += part
                if len(found) > most or time.monotonic() > ends:
                    raise ValueError("it does not end")
        return found
