"""The data of a job, which stay on disk, and the order of the rows in training.

The verified shards are mapped into memory one after another, and a batch copies its rows from there. The data may thus
be larger than memory: the operating system caches the part that fits, once for all processes that read the same files.
docs/decisions/data-stay-on-disk.md explains the mapping, and what happens if another program writes to a mapped file.
"""

import ctypes
import mmap
import os
from collections.abc import Callable, Collection, Sequence
from functools import cache, lru_cache, partial
from itertools import accumulate
from math import gcd

import numpy as np
from numpy.typing import NDArray

from pol.errors import JobError
from pol.job.document import Job
from pol.job.sampling import IN_ORDER, WEIGHTED
from pol.limits import MAX_INTEGER
from pol.ops.philox import PART_POSITIONS, drawn_places, permutation
from pol.state.arrays import NUMPY_DTYPES, Array
from pol.values import TensorSpec

BATCH = "batch."
"""The beginning of the names of columns in the step program."""
_MAP_FIXED = 0x10
_ZERO = np.float32(0.0)
_WORDS = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}
"""NumPy types that copy a whole row in one operation; the keys are the sizes of the row in bytes."""
_PIECE = 2**16
"""Number of rows whose weights are read at once."""


class MappedFiles:
    """The bytes of several files one after another, read-only, without an open descriptor for each file.

    The bytes remain those of the added files, even if other files later get the same names. The addresses are released
    when no object refers to the bytes.
    """

    def __init__(self, sizes: Sequence[int], scattered: bool) -> None:
        """Reserve addresses for files of the given sizes. Raises OSError if the system does not allow the process so
        many addresses.

        ``scattered`` turns off reading ahead, because reading ahead slows down short reads at random places.
        """
        self._scattered = scattered
        pages = (-(-size // mmap.PAGESIZE) * mmap.PAGESIZE for size in sizes)
        self.starts = (0, *accumulate(pages))
        # This reserves addresses only. It takes no memory and does not count against a memory limit.
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._place = mmap.mmap(-1, self.starts[-1], flags=flags, prot=mmap.PROT_READ)
        self.bytes: NDArray[np.uint8] = np.frombuffer(self._place, np.uint8)

    def add(self, index: int, descriptor: int, size: int) -> None:
        """Map an open file of ``size`` bytes as file number ``index``. The descriptor may be closed afterwards.

        Raises OSError if the system refuses.
        """
        address = self.bytes.ctypes.data + self.starts[index]
        flags = mmap.MAP_PRIVATE | _MAP_FIXED
        if _mmap()(address, size, mmap.PROT_READ, flags, descriptor, 0) != address:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        if self._scattered:
            self._place.madvise(mmap.MADV_RANDOM, self.starts[index], size)


@cache
def _mmap() -> Callable[..., int | None]:
    """Return the system's function ``mmap``.

    Python's own function chooses the address itself and keeps a descriptor open.
    """
    function = ctypes.CDLL(None, use_errno=True).mmap
    number = ctypes.c_int
    size = ctypes.c_size_t
    function.argtypes = (ctypes.c_void_p, size, number, number, number, ctypes.c_long)
    function.restype = ctypes.c_void_p
    return function


class Column:
    """A column in mapped bytes.

    If row r of the data is in shard s, its value begins at byte ``origins[s]`` + r x size.
    """

    def __init__(self, spec: TensorSpec, data: NDArray[np.uint8], origins: Sequence[int], canonical: bool) -> None:
        """Prepare to read the column from ``data``.

        ``canonical`` means that no element is -0.0; otherwise -0.0 is read as +0.0.
        """
        self.name, self._shape, self._canonical = spec.name, spec.shape, canonical
        self._dtype = NUMPY_DTYPES[spec.dtype]
        self._at: Array | None = None
        if size := spec.type.size:
            # A view with one item at every address where a row may begin. The rows of one shard need not line up with
            # those of another.
            unit = gcd(size, *origins)
            self._units, self._origins = size // unit, np.array(origins, np.int64) // unit
            # NumPy takes aligned words faster than bytes.
            item = _WORDS.get(size) if unit >= min(size, 8) else None
            count = max(0, (len(data) - size) // unit + 1)
            self._at = np.ndarray((count,), item or f"V{size}", data, strides=(unit,))

    def take(self, rows: NDArray[np.int64], shards: NDArray[np.int64]) -> Array:
        """Return a copy of the column's values in the given rows. Row ``rows[i]`` is in shard ``shards[i]``."""
        shape = (len(rows), *self._shape)
        if self._at is None:
            return np.empty(shape, self._dtype)
        places = rows * self._units
        places += self._origins.take(shards)
        taken: Array = self._at[places].view(self._dtype).reshape(shape)
        if not self._canonical:
            # -0.0 + 0.0 is +0.0
            taken += _ZERO
        return taken


class Dataset:
    """The rows of a job in the order of its shards; ``shard_rows`` gives the number of rows of each shard.

    Example::

        print(assay.load_job("my-job").data.rows)
    """

    def __init__(self, columns: Sequence[Column], shard_rows: Sequence[int]) -> None:
        self._columns = tuple(columns)
        self._ends = np.cumsum(np.array(shard_rows, np.int64))
        first, last = shard_rows[0], shard_rows[-1]
        self._equal = first if last <= first and {*shard_rows[:-1]} <= {first} else None
        self._ends_of_weights: NDArray[np.int64] | None = None
        self.rows = sum(shard_rows)

    def __repr__(self) -> str:
        names = ", ".join(column.name for column in self._columns)
        return f"Dataset({self.rows:,} rows of {names})"

    def take(self, rows: NDArray[np.int64], names: Collection[str] | None = None) -> dict[str, Array]:
        """Return a copy of the rows with the given numbers, as arrays by column name: of the columns ``names``, or of
        all columns.
        """
        shards = self._shards_of(rows)
        return {c.name: c.take(rows, shards) for c in self._columns if names is None or c.name in names}

    def column(self, name: str, rows: NDArray[np.int64]) -> Array:
        """Return a copy of the values that one column has in the rows with the given numbers."""
        column = next(column for column in self._columns if column.name == name)
        return column.take(rows, self._shards_of(rows))

    def weigh(self, name: str) -> None:
        """Set the column ``name`` as the weights for drawing rows.

        Raises JobError if its values are not valid weights.
        """
        self._ends_of_weights = weight_ends(self, name)

    @property
    def weight_ends(self) -> NDArray[np.int64]:
        """Cumulative weights: for each row, the sum of its weight and the weights of all rows before it.

        Raises ValueError if rows have no weights.
        """
        if self._ends_of_weights is None:
            raise ValueError("the rows of this data have no weights")
        return self._ends_of_weights

    def _shards_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        # A division is ten times as fast as a search. It suffices for the shards of a builder, which have equal length.
        if self._equal is not None:
            return rows // self._equal
        return self._ends.searchsorted(rows, "right")


def weight_ends(data: Dataset, name: str) -> NDArray[np.int64]:
    """Return the cumulative weights in the column ``name``.

    The cumulative weight of a row is the sum of its weight and the weights of all rows before it. Raises JobError if a
    weight is below 0, if all weights are 0, or if their sum does not fit into 63 bits.
    """
    ends, total = np.empty(data.rows, np.int64), 0
    for first in range(0, data.rows, _PIECE):
        part = data.column(name, np.arange(first, min(first + _PIECE, data.rows)))
        if (part < 0).any():
            row = first + int((part < 0).argmax())
            reason = f"row {row} of the column {name} is {int(part[row - first])}"
            raise JobError("sampling", reason, "use only weights of 0 or more")
        sums = part.cumsum()
        # Each sum adds two 63-bit numbers, so the first sum that is too large overflows to a negative number.
        if (sums < 0).any() or total + int(sums[-1]) > MAX_INTEGER:
            reason = f"the sum of the column {name} is 2^63 or more"
            raise JobError("sampling", reason, "use smaller weights: divide all of them by the same number")
        np.add(sums, total, out=ends[first : first + len(part)])
        total += int(sums[-1])
    if not total:
        reason = f"all weights in the column {name} are 0"
        raise JobError("sampling", reason, "set a weight above 0, such as 1, for each row that is to be drawn")
    return ends


def sample_rows(seed: int, rows: int, position: int, count: int) -> NDArray[np.int64]:
    """Return the row numbers at ``count`` positions of a shuffled stream, beginning with ``position``.

    The positions may lie in several epochs.

    Position p of the job's stream is row perm(seed, p div N)[p mod N] of the data. N is the number of rows, and
    perm(seed, e) the order of epoch e.
    """
    return _positions(lambda epoch: _order(seed, epoch, rows), rows, position, count)


def drawn_rows(seed: int, ends: NDArray[np.int64], position: int, count: int) -> NDArray[np.int64]:
    """Return the row numbers at ``count`` positions of a stream that draws rows by weight, beginning with ``position``.

    ``ends`` are the sums of the weights up to each row. The row of a position is the first row whose end is above the
    number drawn for that position, so a row of weight 0 is never drawn.
    """
    places = partial(_places, seed, total=int(ends[-1]))
    drawn = _positions(places, PART_POSITIONS, position, count)
    return ends.searchsorted(drawn, "right").astype(np.int64, copy=False)


def stream_rows(dataset: Dataset, job: Job, position: int, count: int) -> NDArray[np.int64]:
    """Return the row numbers at ``count`` positions of the job's sample stream, beginning with ``position``."""
    seed, order = job.document.seed, job.document.sampling.order
    if order == IN_ORDER:
        return np.arange(position, position + count) % dataset.rows
    if order == WEIGHTED:
        return drawn_rows(seed, dataset.weight_ends, position, count)
    return sample_rows(seed, dataset.rows, position, count)


@lru_cache(maxsize=2)
def _order(seed: int, epoch: int, rows: int) -> NDArray[np.int64]:
    return permutation(seed, epoch, rows)


@lru_cache(maxsize=2)
def _places(seed: int, part: int, total: int) -> NDArray[np.int64]:
    return drawn_places(seed, part, total)


def _positions(
    part_of: Callable[[int], NDArray[np.int64]], length: int, position: int, count: int
) -> NDArray[np.int64]:
    """Return ``count`` numbers of a stream, beginning with ``position``.

    The stream consists of parts of ``length`` numbers each, and ``part_of(k)`` computes part k.
    """
    parts = []
    while count:
        number, offset = divmod(position, length)
        part = part_of(number)[offset : offset + count]
        parts.append(part)
        position += len(part)
        count -= len(part)
    return np.concatenate(parts)


def batch_at(dataset: Dataset, job: Job, number: int, names: Collection[str] | None = None) -> dict[str, Array]:
    """Return batch ``number`` of the job's sample stream: the columns ``names``, or all columns.

    With n rows per batch, this batch has the positions from number x n to (number + 1) x n - 1. The result maps
    ``batch.<column>``, the name of an input of the step, to an array of ``batch`` rows.
    """
    batch = job.document.batch
    rows = stream_rows(dataset, job, number * batch, batch)
    return {BATCH + name: column for name, column in dataset.take(rows, names).items()}
