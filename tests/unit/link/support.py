"""A small validator for tests of the link: real server, real TLS, answers from memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from domain.proof.records import SealedLeaf
from host.addresses import HostPort
from link import types as t
from link.blobs import BlobStore
from link.client import ClusterClient
from link.errors import ClusterError, ClusterErrorKind
from link.rates import ServerLimits
from link.server import ClusterServer
from link.tls import Certificate, make_certificate
from wire.keys import Key

CHAIN = "assay-local-test"
PROVIDER = Key(b"\x01" * 32)
CONSUMER = Key(b"\x02" * 32)
STRANGER = Key(b"\x03" * 32)
AUDITOR = Key(b"\x04" * 32)
LIMITS = t.JoinLimits(slots=1, poll_ms=100)


@dataclass
class Answers:
    """Handlers that answer from attributes and remember what they were asked."""

    blobs: BlobStore
    poll_reply: t.PollReply = field(default_factory=lambda: t.PollReply((), (), 100))
    asked: list[object] = field(default_factory=list)
    bug: bool = False
    readers: frozenset[str] = frozenset({PROVIDER.address, AUDITOR.address})

    def probe(self, caller: t.Caller, request: t.ProbeRequest) -> t.ProbeTask:
        return t.ProbeTask(text="nothing is due")

    def roles(self, caller: t.Caller) -> frozenset[t.Role]:
        known = {PROVIDER.address: t.Role.PROVIDER, CONSUMER.address: t.Role.CONSUMER}
        known[AUDITOR.address] = t.Role.AUDITOR
        return frozenset({known[caller.address]} if caller.address in known else ())

    def stat_blob(self, caller: t.Caller, request: t.StatBlobRequest) -> t.BlobStatus:
        return self.blobs.status(request.blob, caller.address)

    def put_chunk(self, caller: t.Caller, request: t.PutChunkRequest) -> t.BlobStatus:
        return self.blobs.put(request.blob, request.offset, request.data, caller.address)

    def get_chunk(self, caller: t.Caller, request: t.GetChunkRequest) -> t.Chunk:
        if caller.address not in self.readers:
            raise ClusterError(ClusterErrorKind.NOT_ALLOWED, "not yours to read", "", field="sha256")
        data = self.blobs.read(request.sha256, request.offset, request.length)
        return t.Chunk(data, self.blobs.size(request.sha256))

    def join(self, caller: t.Caller, request: t.JoinRequest) -> t.JoinReply:
        self.asked.append(request)
        return t.JoinReply(True, "", LIMITS)

    def poll(self, caller: t.Caller, request: t.PollRequest) -> t.PollReply:
        if self.bug:
            raise ZeroDivisionError("secret of the validator")
        self.asked.append(request)
        return self.poll_reply

    def submit_share(self, caller: t.Caller, request: t.ShareSubmission) -> t.Verdict:
        self.asked.append(request)
        return t.Verdict(True)

    def deliver_share(self, caller: t.Caller, request: t.ShareDelivery) -> t.Verdict:
        self.asked.append(request)
        return t.Verdict(True)

    def submit_opening(self, caller: t.Caller, request: t.OpeningSubmission) -> t.Verdict:
        self.asked.append(request)
        return t.Verdict(True)

    def offer_payload(self, caller: t.Caller, request: t.PayloadOffer) -> t.PayloadWanted:
        return t.PayloadWanted(tuple(file.blob for file in request.files))

    def payload_status(self, caller: t.Caller, request: t.PayloadStatusRequest) -> t.PayloadState:
        return t.PayloadState(True, True, "")

    def get_opening(self, caller: t.Caller, request: t.OpeningRequest) -> t.AuditOpening:
        return t.not_ready(500)

    def show_place(self, caller: t.Caller, request: t.ShownPlace) -> t.Verdict:
        self.asked.append(request)
        return t.Verdict(True)

    def get_place(self, caller: t.Caller, request: t.PlaceRequest) -> t.AuditOpening:
        return t.not_ready(500)

    def get_states(self, caller: t.Caller, request: t.StatesRequest) -> t.StatesManifest:
        self.asked.append((caller, request))
        return t.StatesManifest(round=0, states=())

    def offer_states(self, caller: t.Caller, request: t.StatesOffer) -> t.PayloadWanted:
        self.asked.append((caller, request))
        return t.PayloadWanted(())

    def get_result(self, caller: t.Caller, request: t.ResultRequest) -> t.ResultManifest:
        leaves = tuple(t.ResultLeaf(SealedLeaf(bytes(33), i, bytes(32)), bytes(32)) for i in range(20_000))
        page = leaves[request.first : request.first + request.limit]
        blob = t.BlobRef(bytes(32), 1)
        return t.ResultManifest(request.order_id, 1, request.round, blob, len(leaves), page)


@dataclass
class Running:
    """A server that runs, and how to call it."""

    server: ClusterServer
    answers: Answers
    certificate: Certificate
    endpoint: str

    def client(self, key: Key = PROVIDER, timeout: float = 10.0, tries: int = 1) -> ClusterClient:
        return ClusterClient(self.endpoint, self.certificate.der, key, CHAIN, timeout, tries=tries)


@contextmanager
def running(
    directory: Path,
    *,
    limits: ServerLimits | None = None,
    certificate: Certificate | None = None,
    host: str = "127.0.0.1",
) -> Iterator[Running]:
    certificate = certificate or make_certificate(directory / "tls")
    answers = Answers(BlobStore(directory / "blobs", quota=64 << 20))
    server = ClusterServer(str(HostPort(host, 0)), certificate, answers, CHAIN, limits=limits)
    server.start()
    try:
        yield Running(server, answers, certificate, str(HostPort(host, server.port).reached))
    finally:
        server.stop(0)
        answers.blobs.close()
