"""The dtypes of a job in NumPy, and the canonical form of an array."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pol.errors import NotFinite, StateError
from pol.values import Shape

Array = NDArray[Any]
State = Mapping[str, Array]
"""A mapping of names to arrays, which is not changed after it is made."""

NUMPY_DTYPES: dict[str, np.dtype[Any]] = {
    "f32": np.dtype("<f4"),
    "i64": np.dtype("<i8"),
    "bool": np.dtype("?"),
}
_NAMES = {dtype: name for name, dtype in NUMPY_DTYPES.items()}
_F32, _I64, _ZERO = NUMPY_DTYPES["f32"], NUMPY_DTYPES["i64"], np.float32(0.0)


def dtype_name(array: Array, where: str) -> str:
    """Return the job's name of an array's dtype: ``f32``, ``i64`` or ``bool``.

    Raises StateError for any other dtype.
    """
    # These paths are fast, since a state may have thousands of tensors, nearly all of them f32.
    dtype = array.dtype
    if dtype is _F32:
        return "f32"
    if dtype is _I64:
        return "i64"
    name = _NAMES.get(dtype.newbyteorder("<"))
    if name is None:
        raise StateError(where, f"its dtype is {dtype}, not one of {', '.join(NUMPY_DTYPES)}")
    return name


def canonical_array(array: Array, where: str) -> Array:
    """Return ``array`` in canonical form: in C order, little-endian, and with -0.0 replaced by +0.0.

    Raises NotFinite if it holds NaN or infinity, and StateError if its dtype is not one that a job may use.
    """
    dtype = NUMPY_DTYPES[dtype_name(array, where)]
    plain = np.asarray(array, dtype=dtype, order="C")
    if dtype.kind != "f":
        return plain
    if not np.logical_and.reduce(np.isfinite(plain), axis=None):
        raise NotFinite(where)
    # -0.0 + 0.0 is +0.0; every other number stays the same.
    return np.asarray(plain + _ZERO)


def array_from_bytes(data: bytes | memoryview, dtype: str, shape: Shape, where: str) -> Array:
    """Return the array whose elements are the little-endian bytes ``data``.

    Raises StateError if a byte of a bool is not 0 or 1.
    """
    if dtype == "bool" and data and np.frombuffer(data, np.uint8).max() > 1:
        raise StateError(where, "an element of bool is neither 0 nor 1")
    return np.frombuffer(data, NUMPY_DTYPES[dtype]).reshape(shape)


def raw_bytes(array: Array) -> memoryview:
    """Return the bytes of an array that is in canonical form. The bytes share the array's memory."""
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
