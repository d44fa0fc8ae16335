"""Mutants of link."""

from tests.mutants.mutant import Mutant
from tests.mutants.tests import AUDITOR, HANDOVER, NOISE_FOUND, VECTORS

LINK = f"{VECTORS}[link]"
_BLOBS = "tests/unit/link/test_blobs.py"
_RECEIVING = "tests/unit/link/test_receiving.py"

MUTANTS = (
    Mutant(
        "one-key-for-two-contents",
        "a chunk's key does not depend on the chunk, so that two contents of a place give each other away",
        "link/handover.py",
        "    fields = (*handover.fields(index), sha256(chunk).digest())\n",
        "    fields = handover.fields(index)\n",
        (
            "tests/unit/link/test_handover.py::test_another_content_in_the_same_place_has_another_point",
            HANDOVER,
        ),
    ),
    Mutant(
        "envelope-body",
        "the body of a request on the link is not signed",
        "link/envelope.py",
        "sha256(body).digest(),",
        'sha256(b"").digest(),',
        (LINK,),
    ),
    Mutant(
        "order-secret",
        "all orders of a job have the same secret",
        "link/handover.py",
        '"assay/order-key", chain_id, job_id, u64(sequence))',
        '"assay/order-key", chain_id, job_id)',
        (HANDOVER,),
    ),
    Mutant(
        "newest-caller",
        "the rate limits forget who called last",
        "link/rates.py",
        "popitem(last=False)",
        "popitem(last=True)",
        ("tests/unit/link/test_rates.py::test_only_who_was_quiet_longest_is_forgotten",),
    ),
    Mutant(
        "half-sent",
        "calls without a message keep their places whoever comes",
        "link/server_slots.py",
        "if not slot.worked_on]",
        "if slot.arrived and not slot.worked_on]",
        (f"{_RECEIVING}::test_half_sent_calls_from_everywhere_stop_nobody",),
    ),
    Mutant(
        "strangers-apart",
        "strangers and those who are known share the places",
        "link/receiving.py",
        "self.strangers if caller is None else self.known",
        "self.known",
        (f"{_RECEIVING}::test_what_strangers_wait_for_holds_up_nobody_who_is_known",),
    ),
    Mutant(
        "idle-strangers",
        "connections of strangers stay whoever comes",
        "link/limiter.py",
        "one.shutdown(socket.SHUT_RDWR)",
        "pass",
        ("tests/unit/link/test_limiter.py::test_idle_connections_of_strangers_make_room",),
    ),
    Mutant(
        "known-connections",
        "connections of those who are known are as many as strangers'",
        "link/limiter.py",
        "if caller is None:",
        "if True:",
        ("tests/unit/link/test_limiter.py::test_idle_connections_of_strangers_make_room",),
    ),
    Mutant(
        "request-size",
        "a request may have the size of the largest, whatever its call is",
        "link/server.py",
        "if len(raw) > call.size + _ENVELOPE_BYTES:",
        "if len(raw) > MESSAGE_BYTES_MAX:",
        ("tests/unit/link/test_server.py::test_more_than_a_call_has_is_refused_unread",),
    ),
    Mutant(
        "announced-bytes",
        "the first byte of a blob takes the room of the whole",
        "link/blobs.py",
        "self._arrived[name] = (owner, received + more)",
        "self._arrived[name] = (owner, blob.size)",
        (f"{_BLOBS}::test_three_bytes_take_three_bytes_of_room",),
    ),
    Mutant(
        "abandoned-upload",
        "an upload that stopped half-way keeps its room while its order lives",
        "link/blobs.py",
        "not (complete and self.is_held(digest))",
        "not self.is_held(digest)",
        (f"{_BLOBS}::test_collect_deletes_old_blobs_that_nobody_holds_or_finished",),
    ),
    Mutant(
        "whose-blob",
        "whoever asks is told that somebody else has sent a blob",
        "link/blobs.py",
        "return not owner or bool(",
        "return True or bool(",
        (f"{_BLOBS}::test_nobody_learns_what_others_sent",),
    ),
    Mutant(
        "any-scalar",
        "a validator shows another scalar to each seat, so that no two seats agree on what is wrong",
        "link/handover.py",
        "    if not is_scalar(opening.scalar) or public_point(opening.scalar) != opening.leaf.point:\n",
        "    if not is_scalar(opening.scalar):\n",
        (NOISE_FOUND, AUDITOR),
    ),
    Mutant(
        "no-chunk-is-unavailable",
        "a leaf that no chunk can have is an abstention",
        "link/handover.py",
        "    if not is_point(opening.leaf.point) or not has_valid_length(place, opening.leaf.length):\n",
        "    if not has_valid_length(place, opening.leaf.length):\n",
        (NOISE_FOUND,),
    ),
    Mutant(
        "any-sealed-leaf",
        "a validator shows seats a right leaf that is not the one on chain",
        "link/handover.py",
        "    if not verify_path(leaf, index, asked.layout.count, opening.path, asked.root):\n",
        '    if asked.root == b"":\n',
        ("tests/unit/link/test_handover.py",),
    ),
)
