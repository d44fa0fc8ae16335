"""Mutants of consumer."""

from tests.mutants.mutant import Mutant

_UNSEALING = "tests/unit/consumer/test_unsealing.py"

MUTANTS = (
    Mutant(
        "copy-only-for-the-asker",
        "a validator that hides the consumer's copy lets a panel say that states are lost",
        "consumer/states.py",
        "        for name in (leg.validator, *find_seats(self.client, answer)):\n",
        "        for name in (leg.validator,):\n",
        (
            "tests/unit/consumer/test_states.py"
            "::test_copies_are_sent_to_the_seats_that_look_for_them_though_the_next_validator_does_not_answer",
        ),
    ),
    Mutant(
        "local-states-unchecked",
        "the consumer takes any local state",
        "consumer/unsealing.py",
        "            if merkle_root(self._state_leaves(state)) != root:\n",
        "            if not state and merkle_root(self._state_leaves(state)) != root:\n",
        ("tests/unit/consumer/test_result.py",),
    ),
    Mutant(
        "newest-order",
        "a consumer cannot open the result of the order that it made last",
        "consumer/submit.py",
        "in range(newest, max",
        "in range(newest - 2, max",
        ("tests/unit/consumer/test_submit.py::test_the_secret_is_found_again",),
    ),
    Mutant(
        "unchecked-chunk",
        "a consumer takes a chunk that decrypts for the one that the state has",
        "consumer/unsealing.py",
        "        if chunk_leaf(chunk) != leaf.state_leaf:\n",
        "        if False:\n",
        (_UNSEALING,),
    ),
    Mutant(
        "late-chunk-check",
        "a consumer fetches everything before it looks at the first chunk",
        "consumer/unsealing.py",
        "            if len(self._rest) - done < length:\n",
        "            if len(self._rest) - done < length or len(self._rest) < self.size:\n",
        (_UNSEALING,),
    ),
    Mutant(
        "replica-without-copies",
        "a consumer keeps copies of states for the first replica only",
        "consumer/watch.py",
        "            states=None if self.states is None else self.states.parent / order_id.hex(),\n",
        "",
        ("tests/unit/consumer/test_states.py::test_each_replica_has_copies_of_its_own_states",),
    ),
)
