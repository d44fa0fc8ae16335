"""A group's key on its way to a machine."""

import pytest

from pol.machines.sealing import Opener, seal
from pol.machines.stream import LinkError

KEY = b"k" * 32


def test_the_machine_opens_its_key() -> None:
    own = Opener()
    sealed = seal(KEY, own.public, b"group")
    assert own.open(sealed, b"group") == KEY
    assert KEY not in sealed
    assert seal(KEY, own.public, b"group") != sealed


def test_another_machine_does_not() -> None:
    own = Opener()
    with pytest.raises(LinkError, match="not sealed for this machine"):
        Opener().open(seal(KEY, own.public, b"group"), b"group")


def test_a_key_of_another_group_is_refused() -> None:
    own = Opener()
    with pytest.raises(LinkError, match="not sealed for this machine"):
        own.open(seal(KEY, own.public, b"group"), b"other")


@pytest.mark.parametrize("at", [0, 40, -1])
def test_a_changed_key_is_refused(at: int) -> None:
    own = Opener()
    sealed = bytearray(seal(KEY, own.public, b"group"))
    sealed[at] ^= 1
    with pytest.raises(LinkError, match="not sealed for this machine"):
        own.open(bytes(sealed), b"group")


@pytest.mark.parametrize("data", [b"", bytes(31), bytes(80)])
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(LinkError, match="not sealed for this machine"):
        Opener().open(data, b"group")
    with pytest.raises(LinkError, match="public key"):
        seal(KEY, data[:32], b"group")
