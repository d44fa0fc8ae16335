"""Answers to queries, by pure functions of a state. Lists are in the order of keys, and are cut off at a limit."""

from chain.state_machine.context import HEAD
from chain.state_machine.rules import RULEBOOK, Rulebook
from chain.state_machine.store import Overlay, Reader
from chain.state_machine.tables import R
from domain.bounds import check
from domain.errors import UNKNOWN_REQUEST, Refusal
from domain.queries import Query


def answer(reader: Reader, request: Query[R], rulebook: Rulebook = RULEBOOK) -> R:
    """Return the answer to a request, by the rules of the block that wrote the state.

    Requests for events are not answered here, because events are not part of the state. Raise a Refusal that names the
    record that does not exist, or the path of the field that is out of bounds.
    """
    store = Overlay(reader)
    answer_of = rulebook.at(store, HEAD.must(store).height).answers.get(type(request))
    if answer_of is None:
        name = type(request).__name__
        raise Refusal(UNKNOWN_REQUEST, "request", f"the state has no answer to {name}", "send the request to a node")
    check(request)
    response: R = answer_of(store, request)
    return response
