"""The three blob calls of a server over a :class:`~link.blobs.BlobStore`."""

from abc import ABC, abstractmethod

from link.blobs import BlobStore
from link.types import (
    BlobStatus,
    Caller,
    Chunk,
    GetChunkRequest,
    PutChunkRequest,
    StatBlobRequest,
)


class BlobCalls(ABC):
    """Answers StatBlob, PutChunk and GetChunk; a validator inherits and says who may do what."""

    blobs: BlobStore

    @abstractmethod
    def may_put(self, caller: Caller, request: PutChunkRequest) -> None:
        """Raise ClusterError if the caller may not send this blob (asked with every chunk)."""

    @abstractmethod
    def may_read(self, caller: Caller, digest: bytes) -> None:
        """Raise ClusterError if the caller may not read this blob."""

    def stat_blob(self, caller: Caller, request: StatBlobRequest) -> BlobStatus:
        """How much of the caller's upload is here."""
        return self.blobs.status(request.blob, caller.address)

    def put_chunk(self, caller: Caller, request: PutChunkRequest) -> BlobStatus:
        """Take bytes of a blob."""
        self.may_put(caller, request)
        return self.blobs.put(request.blob, request.offset, request.data, caller.address)

    def get_chunk(self, caller: Caller, request: GetChunkRequest) -> Chunk:
        """Give bytes of a blob."""
        self.may_read(caller, request.sha256)
        data = self.blobs.read(request.sha256, request.offset, request.length)
        return Chunk(data, self.blobs.size(request.sha256))
