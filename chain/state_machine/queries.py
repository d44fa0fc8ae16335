"""Answers to queries: pure functions of a state. Lists are in key order and cut at a limit."""

from chain.state_machine.context import HEAD
from chain.state_machine.rules import RULEBOOK, Rulebook
from chain.state_machine.store import Overlay, Reader
from chain.state_machine.tables import R
from domain.bounds import check
from domain.errors import UNKNOWN_REQUEST, Refusal
from domain.queries import Query


def answer(reader: Reader, request: Query[R], rulebook: Rulebook = RULEBOOK) -> R:
    """Answer a request (all but events, which lie beside the state), by the rules that left the state as it is.

    A Refusal names what is not there, or the path of a field that is out of its bounds.
    """
    store = Overlay(reader)
    found = rulebook.at(store, HEAD.must(store).height).answers.get(type(request))
    if found is None:
        name = type(request).__name__
        raise Refusal(UNKNOWN_REQUEST, "request", f"{name} is not answered here", "ask the node")
    check(request)
    response: R = found(store, request)
    return response
