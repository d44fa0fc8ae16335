"""The error of the link.

A handler raises it, the server sends it as a typed status, and the client raises it again at the caller.
"""

from enum import StrEnum

from domain.errors import Expected, printable


class ClusterErrorKind(StrEnum):
    """The kind of failure, as a stable word for programs.

    The gRPC status of a kind depends on the party that is at fault.
    """

    BAD_REQUEST = "bad_request"  # a field cannot be parsed or is out of its bounds
    TOO_LARGE = "too_large"
    STALE = "stale"  # the envelope's time is too far from the server's
    REPLAYED = "replayed"  # the nonce was used before
    BAD_SIGNATURE = "bad_signature"  # signature, key, method, chain or audience is wrong
    NOT_ALLOWED = "not_allowed"  # the caller is known, but is not the party that may do this
    NOT_FOUND = "not_found"
    WRONG_STATE = "wrong_state"
    WRONG_CONTENT = "wrong_content"  # the bytes do not have the hash that is their name
    OVER_QUOTA = "over_quota"
    TAKEN = "taken"  # the server serves another process with the caller's key
    BUSY = "busy"  # a rate limit is exceeded: try again a little later
    INTERNAL = "internal"  # a bug at the server; its log has the details
    # Only a caller raises the following kinds:
    UNREACHABLE = "unreachable"
    TIMED_OUT = "timed_out"
    BAD_REPLY = "bad_reply"


class BlobStoreError(Expected):
    """The error of a folder of blobs that cannot be used."""


class ClusterError(Expected):
    """A call that failed, with the kind of failure, the field at fault, the reason, and a remedy.

    The texts may come from another owner, so unprintable characters are written as escapes.

    Example::

        try:
            result = order.result()
        except assay.ClusterError as error:
            print("the validator does not serve the result:", error.reason)
    """

    def __init__(self, kind: ClusterErrorKind, reason: str, remedy: str = "", *, field: str = "") -> None:
        """Keep the kind with the parts."""
        super().__init__(printable(reason), printable(remedy), field=printable(field))
        self.kind = kind

    @property
    def word(self) -> str:
        """The kind of failure."""
        return self.kind.value


class ListenError(Expected):
    """An address on which this process cannot listen."""
