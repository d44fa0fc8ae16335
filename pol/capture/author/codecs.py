"""The kinds of update that a consumer may choose in a job specification (this module does not import torch).

The functions that code and decode updates are in ``pol/capture/codecs``.
"""

from dataclasses import dataclass

from domain.readable import Readable
from pol.capture.author.ranges import check_range, check_whole
from pol.errors import JobError

CHUNK_MIN, CHUNK_MAX = 64, 65_536
BLOCK_MAX = 65_536
WARMUP_MAX = 64


@dataclass(frozen=True, slots=True)
class Dense(Readable):
    """Update that holds every tensor that the steps change, in FP32.

    Example::

        job = assay.JobSpec(..., slots=4, update=assay.Dense())
    """


@dataclass(frozen=True, slots=True)
class Sparse(Readable):
    """SparseLoCo (arXiv 2508.15706): the largest changes of each weight tensor, in few bits, and the rest later.

    A slot adds the change of a round to its residue, which it multiplies by ``decay`` before. Of every ``chunk``
    elements of a tensor it sends the ``keep`` largest, each with its place and ``bits`` bits (1 or 2), and subtracts
    what it sent from the residue. Weight tensors with fewer than ``chunk`` elements are coded together. Buffers are
    sent in full, and so are the small tensors if all of them together have fewer than ``chunk`` elements.

    Example::

        job = assay.JobSpec(..., slots=4, round_steps=30, update=assay.Sparse())
    """

    keep: int = 64
    chunk: int = 4096
    bits: int = 2
    decay: float = 0.95

    def __post_init__(self) -> None:
        _check_chunk(self.chunk)
        check_whole("update.keep", self.keep, 1, self.chunk)
        check_whole("update.bits", self.bits, 1, 2)
        check_range("update.decay", self.decay, high=1.0 + 2**-52)


@dataclass(frozen=True, slots=True)
class Quantised(Readable):
    """Update in 8 or 4 bits per element, with a scale for every ``block`` elements.

    The rounding errors stay in the slot's residue and are added to the change of the next round. Small weight tensors
    are coded together, and buffers are sent in full, as in :class:`Sparse`.

    Example::

        job = assay.JobSpec(..., slots=4, update=assay.Quantised(bits=4))
    """

    bits: int = 8
    block: int = 256

    def __post_init__(self) -> None:
        bits: object = self.bits
        if type(bits) is not int or bits not in (4, 8):
            raise JobError("update.bits", f"{bits!r} is not a number of bits", "give 8 or 4")
        check_whole("update.block", self.block, 16, BLOCK_MAX)
        if self.block % 16:
            raise JobError("update.block", f"{self.block} is not a multiple of 16", "give a multiple, such as 256")


@dataclass(frozen=True, slots=True)
class DGC(Readable):
    """Deep Gradient Compression (arXiv 1712.01887), applied to the change of a round instead of a gradient.

    A slot adds the change of a round to its residue, which it multiplies by ``decay`` before. Of every ``chunk``
    elements of a tensor it sends the ``keep`` largest of the residue in FP32, and sets their residue to 0. If ``outer``
    has a momentum, each slot applies it to its own changes before it selects, and the outer optimizer applies only its
    learning rate (the paper's momentum correction). The momentum of an element that is sent becomes 0 (masking).

    ``warmup`` has the number of elements to send for each of the first rounds, if they should send more. The size of an
    update is that of the largest of these numbers in every round, because shapes are fixed. Small weight tensors are
    coded together, and buffers are sent in full, as in :class:`Sparse`.

    Example::

        job = assay.JobSpec(..., slots=4, outer=assay.Nesterov(lr=0.7, momentum=0.5), update=assay.DGC())
    """

    keep: int = 64
    chunk: int = 4096
    decay: float = 0.95
    warmup: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _check_chunk(self.chunk)
        check_whole("update.keep", self.keep, 1, self.chunk)
        check_range("update.decay", self.decay, high=1.0 + 2**-52)
        warmup: object = self.warmup
        if not isinstance(warmup, tuple) or len(warmup) > WARMUP_MAX:
            reason = f"{warmup!r} is not a tuple of at most {WARMUP_MAX} numbers"
            raise JobError("update.warmup", reason, "give the elements to send in the first rounds, such as (64, 32)")
        for count in warmup:
            check_whole("update.warmup", count, 1, self.chunk)


Update = Dense | Sparse | Quantised | DGC


def _check_chunk(chunk: object) -> None:
    check_whole("update.chunk", chunk, CHUNK_MIN, CHUNK_MAX)
    assert isinstance(chunk, int)
    if chunk & (chunk - 1):
        raise JobError("update.chunk", f"{chunk} is not a power of two", "give a power of two, such as 4096")
