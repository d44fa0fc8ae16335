"""The generated protobuf modules of the chain's components, found by the names of their packages."""

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Any

from google.protobuf.descriptor_pool import Default


def descriptors(module: str, packages: Iterable[tuple[str, ...]]) -> list[Any]:
    """Return the file descriptor of the module ``module`` in each of the packages, in order and without duplicates."""
    names = dict.fromkeys(name for names in packages for name in names)
    return [import_module(f"{name}.{module}").DESCRIPTOR for name in names]


def descriptor_of(url: str) -> Any:
    """Return the descriptor of a message of a component, or of what a message packs, by its type url."""
    _load()
    pool: Any = Default()  # type: ignore[no-untyped-call]  # the stubs leave it untyped
    return pool.FindMessageTypeByName(url.removeprefix("/"))


@cache
def _load() -> None:
    """Import the modules, so that the pool has their types."""
    from domain.vocabulary import COMPONENTS  # only here: processes that compute do without the words of the chain

    descriptors("tx_pb2", (words.message_packages for words in COMPONENTS))
    for words in COMPONENTS:
        for name in words.packed_modules:
            import_module(name)
