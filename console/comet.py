"""Queries to a node's CometBFT, for data that the node itself does not report.

Answers are limited in time and size, because CometBFT may be slow or send an endless answer.
"""

import time
from typing import Any, Final

import requests
from urllib3.exceptions import HTTPError

from host.foreign_json import read_json

CONNECT_SECONDS: Final = 1.0
_ANSWER_SECONDS: Final = 2.0
_PART_BYTES: Final = 2**18
SHORT_BYTES: Final = 2**18
# A block has a token or two per transaction.
_TOKENS_MAX: Final = 2**18


class Comet:
    """A client of the CometBFT at a URL. If the URL is empty, every answer is None.

    Only one thread at a time may use the client.
    """

    def __init__(self, url: str) -> None:
        """Create a client; an empty ``url`` means that CometBFT's address is not known."""
        self.url = url
        self._session = requests.Session()
        self._session.trust_env = False

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def ask(self, path: str, *names: str, most: int = SHORT_BYTES) -> Any:
        """Query ``path``, and return the value in the answer's result that is reached by the keys ``names``, one inside
        the other.

        Return None if there is no URL, if CometBFT does not answer in time, or if the answer is malformed or longer
        than ``most`` bytes.
        """
        if not self.url:
            return None
        try:
            value = read_json(self._read(f"{self.url}/{path}", most), _TOKENS_MAX)["result"]
            for name in names:
                value = value[name]
        except (requests.RequestException, HTTPError, ValueError, LookupError, TypeError):
            return None
        return value

    def _read(self, url: str, most: int) -> bytes:
        """Return the answer's body; raise ValueError if it is longer than ``most`` bytes or takes too long."""
        body = b""
        ends = time.monotonic() + _ANSWER_SECONDS
        with self._session.get(url, timeout=CONNECT_SECONDS, stream=True) as answer:
            while part := answer.raw.read1(_PART_BYTES):
                body += part
                if len(body) > most or time.monotonic() > ends:
                    raise ValueError("answer is too long or too slow")
        return body
