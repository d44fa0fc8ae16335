"""The signed envelope of each request: caller, audience, method, time, and a nonce that is used once.

TLS proves to the caller that the other end is the validator. The envelope proves the caller's identity to the
validator. The envelope names the certificate that the caller dialled, so a validator cannot pass a request on to
another validator.
"""

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from os import urandom
from threading import Lock
from typing import Annotated, Protocol

from domain.bounds import Hash, Range, Signature, Size
from domain.errors import Refusal
from domain.hashing import encode_fields, u64
from domain.measures import duration
from link.errors import ClusterError, ClusterErrorKind
from link.types import MESSAGE_BYTES_MAX, Caller
from wire.address import address_of
from wire.keys import verify

TIME_TOLERANCE = 60  # seconds of difference in either direction
NONCE_SIZE = 16
# Seconds for which a nonce is remembered. For that long, a copy of its envelope could still pass the check of the time.
_REMEMBER = 2 * TIME_TOLERANCE + 1
_TAG = "assay/cluster/request"


class Signer(Protocol):
    """A signer: a key of the chain (``wire.keys.Key``)."""

    @property
    def address(self) -> str:
        """The bech32 address."""
        ...

    @property
    def pub_key(self) -> bytes:
        """The public key: 33 bytes, compressed."""
        ...

    def sign(self, message: bytes) -> bytes:
        """Return the signature of SHA-256 of the message: 64 bytes, low s."""
        ...


@dataclass(frozen=True, slots=True)
class Envelope:
    """The fields of ``assay.cluster.v1.Envelope``."""

    chain_id: Annotated[str, Size(1, 64)]
    audience: Hash
    caller: Annotated[str, Size(1, 128)]
    pub_key: Annotated[bytes, Size(33, 33)]
    method: Annotated[str, Size(1, 64)]
    unix_time: Annotated[int, Range(0, 2**63 - 1)]
    nonce: Annotated[bytes, Size(NONCE_SIZE, NONCE_SIZE)]
    signature: Signature


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A request on the wire: the envelope, and the bytes of the call's message that it signs."""

    envelope: Envelope
    body: Annotated[bytes, Size(0, MESSAGE_BYTES_MAX)]


def sign_bytes(envelope: Envelope, body: bytes) -> bytes:
    """Return the bytes that the caller signs: all fields but the signature, and the body's hash."""
    return encode_fields(
        _TAG,
        envelope.chain_id,
        envelope.audience,
        envelope.caller,
        envelope.pub_key,
        envelope.method,
        u64(envelope.unix_time),
        envelope.nonce,
        sha256(body).digest(),
    )


def seal(
    signer: Signer,
    chain_id: str,
    audience: bytes,
    method: str,
    body: bytes,
    *,
    now: int | None = None,
) -> Envelope:
    """Return a signed envelope of a request; each try needs an envelope of its own."""
    moment = int(time.time()) if now is None else now
    nonce = urandom(NONCE_SIZE)
    unsigned = Envelope(
        chain_id=chain_id,
        audience=audience,
        caller=signer.address,
        pub_key=signer.pub_key,
        method=method,
        unix_time=moment,
        nonce=nonce,
        signature=bytes(64),
    )
    signature = signer.sign(sign_bytes(unsigned, body))
    return Envelope(
        chain_id=chain_id,
        audience=audience,
        caller=signer.address,
        pub_key=signer.pub_key,
        method=method,
        unix_time=moment,
        nonce=nonce,
        signature=signature,
    )


class NonceMemory:
    """The nonces that were used recently.

    Their number is bounded in total and per caller. A nonce is forgotten only when an envelope with this nonce would be
    too old to be accepted.
    """

    def __init__(self, capacity: int, per_caller: int) -> None:
        """Remember at most ``capacity`` nonces, at most ``per_caller`` of one caller."""
        self._capacity = capacity
        self._per_caller = per_caller
        self._order: deque[tuple[int, str, bytes]] = deque()
        self._used: set[tuple[str, bytes]] = set()
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    def use(self, caller: str, nonce: bytes, now: int) -> None:
        """Record a caller's nonce as used; ClusterError REPLAYED if it was used before, BUSY if there is no room."""
        with self._lock:
            self._forget(now)
            if (caller, nonce) in self._used:
                raise ClusterError(
                    ClusterErrorKind.REPLAYED,
                    "was used before",
                    "sign each request again, with a new nonce",
                    field="envelope.nonce",
                )
            # Dropping an old nonce to make room would allow its request to be replayed. So the new nonce is refused.
            if len(self._used) >= self._capacity or self._counts[caller] >= self._per_caller:
                raise ClusterError(
                    ClusterErrorKind.BUSY,
                    "too many requests within two minutes",
                    "wait two minutes, and make fewer requests",
                    field="envelope",
                )
            self._used.add((caller, nonce))
            self._counts[caller] += 1
            self._order.append((now + _REMEMBER, caller, nonce))

    def _forget(self, now: int) -> None:
        while self._order and self._order[0][0] < now:
            _, caller, nonce = self._order.popleft()
            self._used.discard((caller, nonce))
            self._counts[caller] -= 1
            if not self._counts[caller]:
                del self._counts[caller]


class Gate:
    """The check that a server makes of each envelope."""

    def __init__(
        self,
        chain_id: str,
        audience: bytes,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Accept only requests that are signed for this chain and for the certificate with the hash ``audience``."""
        self._chain_id = chain_id
        self._audience = audience
        self._clock = clock
        self._known = NonceMemory(capacity=400_000, per_caller=100_000)
        # Anyone can make keys at no cost. So callers without a role share a small memory, and cannot fill the other
        # one.
        self._strangers = NonceMemory(capacity=4_096, per_caller=1_024)

    def check(self, envelope: Envelope, method: str, body: bytes) -> Caller:
        """Check the envelope of a request, and return the caller that signed it.

        If a check fails, the ClusterError has the kind STALE for the time, and BAD_SIGNATURE for any other field.
        """
        if envelope.chain_id != self._chain_id:
            raise _refused("chain_id", "names another chain", f"sign for {self._chain_id}")
        if envelope.audience != self._audience:
            raise _refused("audience", "names another certificate", "use the validator's certificate on chain")
        if envelope.method != method:
            raise _refused("method", f"is {envelope.method}", f"sign for {method}")
        skew = envelope.unix_time - int(self._clock())
        if abs(skew) > TIME_TOLERANCE:
            # The caller reads this text on another machine, so "your" is the caller's.
            raise ClusterError(
                ClusterErrorKind.STALE,
                f"your clock is {duration(abs(skew))} {'ahead of' if skew > 0 else 'behind'} the validator's",
                "set it (as root: timedatectl set-ntp true); if it is right, tell the validator's operator",
            )
        if _address_of(envelope.pub_key) != envelope.caller:
            raise _refused("pub_key", "is not the caller's", "send the public key of the caller's address")
        if not verify(envelope.pub_key, sign_bytes(envelope, body), envelope.signature):
            raise _refused("signature", "is not valid", "sign the envelope and the body exactly as they are sent")
        return Caller(envelope.caller, envelope.pub_key)

    def use_nonce(self, envelope: Envelope, known: bool) -> None:
        """Record the nonce of a checked envelope as used; ``known`` is true if the caller has a role here."""
        memory = self._known if known else self._strangers
        memory.use(envelope.caller, envelope.nonce, int(self._clock()))


def _address_of(pub_key: bytes) -> str:
    try:
        return address_of(pub_key)
    except Refusal as refusal:
        raise _refused("pub_key", refusal.reason, refusal.remedy) from None


def _refused(field: str, message: str, remedy: str) -> ClusterError:
    return ClusterError(ClusterErrorKind.BAD_SIGNATURE, message, remedy, field=f"envelope.{field}")
