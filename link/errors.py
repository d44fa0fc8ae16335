"""The one error of the link: raised by a handler, sent as a typed status, raised at the caller."""

from enum import StrEnum

from domain.errors import Expected, printable


class ClusterErrorKind(StrEnum):
    """What went wrong, as a stable word for programs; who is at fault decides the gRPC status."""

    BAD_REQUEST = "bad_request"  # a field does not parse or is out of its bounds
    TOO_LARGE = "too_large"
    STALE = "stale"  # the envelope's time is too far from the server's
    REPLAYED = "replayed"  # the nonce was used before
    BAD_SIGNATURE = "bad_signature"  # signature, key, method, chain or audience do not hold
    NOT_ALLOWED = "not_allowed"  # known, but not the party that may do this
    NOT_FOUND = "not_found"
    WRONG_STATE = "wrong_state"
    WRONG_CONTENT = "wrong_content"  # bytes that do not hash to their name
    OVER_QUOTA = "over_quota"
    TAKEN = "taken"  # another process with the caller's key is served
    BUSY = "busy"  # over a rate limit: try again a little later
    INTERNAL = "internal"  # a bug at the server; its log has more
    # Only at the caller:
    UNREACHABLE = "unreachable"
    TIMED_OUT = "timed_out"
    BAD_REPLY = "bad_reply"


class ClusterError(Expected):
    """A call that did not succeed: its kind, the field at fault, the reason, and a remedy.

    The words may be another owner's: what a terminal or a log should not get is written as escapes.

    Example::

        try:
            result = order.result()
        except assay.ClusterError as error:
            print("the validator does not serve it:", error.reason)
    """

    def __init__(self, kind: ClusterErrorKind, reason: str, remedy: str = "", *, field: str = "") -> None:
        """Keep the kind beside the parts."""
        super().__init__(printable(reason), printable(remedy), field=printable(field))
        self.kind = kind

    @property
    def word(self) -> str:
        """The kind."""
        return self.kind.value


class ListenError(Expected):
    """An address that cannot be listened on."""
