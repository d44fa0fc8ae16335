"""The process that works out a validator's probe."""

from threading import Event

import pytest

from compute_provider.interfaces import ProviderError
from compute_provider.work.prober import probing
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.work.probe import work_pieces


def test_it_works_out_what_is_asked_for_again_and_again() -> None:
    with probing(Engine("numpy"), Event()) as work:
        for seed, pieces in ((b"\x01" * 32, 3), (b"\x02" * 32, 1)):
            assert work(seed, pieces) == work_pieces(seed, range(pieces), backend(Engine("numpy")))


def test_a_back_end_that_does_not_work_here_is_said() -> None:
    with pytest.raises(ProviderError, match="ended"), probing(Engine("nothing"), Event()):
        raise AssertionError("it is not up")


def test_it_ends_with_the_daemon() -> None:
    stop = Event()
    with probing(Engine("numpy"), stop) as work:
        stop.set()
        with pytest.raises(ProviderError):
            work(b"\x01" * 32, 4_096)
