"""Custom update rules. A rule is one function that moves one parameter, both in a loop of plain torch and in a job.

An :class:`UpdateRule` is an optimizer of torch. Its ``step()`` calls the function on tensors; a job calls the same
function during the capture of a step. In both cases :func:`moved` checks the values that the function returns.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import getclosurevars, signature
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from domain.readable import Readable
from pol.capture.optim.updates import Now, ParameterState
from pol.capture.reports.origin import calls_rules, place_of_error, place_of_function
from pol.capture.reports.reasons import in_words
from pol.errors import JobError

Loss = Callable[[], Tensor]
_NOT_OPTIONS = ("params", "param_names", "lr", "initial_lr")
"""Entries of a parameter group that are not options of the rule."""
_ANOTHER_WAY = "use another function there (docs/jobs.md lists what works)"


@dataclass(frozen=True, slots=True)
class RuleStep(Readable):
    """One step, as an update rule gets it.

    ``number`` counts the updates from 0 (an integer tensor of shape []). ``lr`` is the learning rate of this update
    (FP32, shape []), according to the schedule. ``options`` are the options of the parameter group. If the group lacks
    an option, the rule's default is used. ``numbers`` are the numbers of the whole group, as ``begin`` returned them
    for this step.

    Example::

        def descend(parameter, gradient, state, step):
            decay = 1.0 - step.lr * step.options["weight_decay"]
            return parameter * decay - step.lr * gradient, state
    """

    number: Tensor
    lr: Tensor
    options: Mapping[str, Any]
    numbers: Mapping[str, Tensor]


State = Mapping[str, "float | Tensor | Callable[[Tensor], float | Tensor]"]
"""Initial state of a parameter: maps each name to its value before the first step."""
States = State | Callable[[Tensor], State]
Move = Callable[[Tensor, Tensor, dict[str, Tensor], RuleStep], tuple[Tensor, Mapping[str, Tensor]]]
"""Function of (parameter, gradient, state, step) that returns (parameter, state)."""
Begin = Callable[[list[Tensor], list[Tensor], list[dict[str, Tensor]], RuleStep], Mapping[str, "Tensor"]]
"""Function of a group's parameters, their gradients, their states and the step; it returns the numbers of the group."""


class UpdateRule(Optimizer):
    """An optimizer that moves each parameter by a function; :func:`update_rule` returns one.

    Example::

        def descend(parameter, gradient, state, step):
            return parameter - step.lr * gradient, state

        rule = assay.update_rule(descend, model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(rule, 30)
    """

    def __init__(
        self,
        function: Move,
        params: Any,
        *,
        lr: float,
        state: "States",
        numbers: Mapping[str, float],
        begin: Begin | None,
        options: Mapping[str, Any],
    ) -> None:
        self.function, self.begin = function, begin
        self.initial, self.numbers = state, dict(numbers)
        self._options = tuple(options)
        remedy = "give a function (parameter, gradient, state, step) that returns (parameter, state)"
        _check_function(function, "optimizer", remedy)
        if begin is not None:
            remedy = "give a function (parameters, gradients, states, step) that returns the numbers"
            _check_function(begin, "optimizer, begin", remedy)
        _check_numbers(self.numbers, begin)
        if not callable(state):
            self._check_state(state, "optimizer")
        super().__init__(params, {"lr": lr, **options})
        for index, group in enumerate(self.param_groups):
            unknown = [name for name in group if name not in (*_NOT_OPTIONS, *self.defaults)]
            if unknown:
                known = ", ".join(sorted(("lr", *options)))
                reason = f"group {index} has {unknown[0]!r}, which is not an option of the rule ({known})"
                raise JobError("optimizer", reason, f"add the option: update_rule(…, {unknown[0]}=…)")

    def __getstate__(self) -> dict[str, Any]:
        """Return all attributes for a copy of the optimizer, because torch would copy only its own."""
        own = ("function", "begin", "initial", "numbers", "_options")
        return {**super().__getstate__(), **{name: getattr(self, name) for name in own}}

    def options(self, group: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a group that the rule reads."""
        return {name: group[name] for name in self._options}

    def first_state(self, name: str, parameter: Tensor) -> dict[str, Tensor]:
        """Return the state of a parameter before its first step.

        Raises JobError if a value is not FP32.
        """
        field = f"optimizer, state of {name}"
        initial: object = self.initial
        if callable(initial):
            initial = called(initial, field, parameter.clone())
            self._check_state(initial, field)
        assert isinstance(initial, Mapping)
        state = {}
        for key, first in initial.items():
            value = called(first, field, parameter.clone()) if callable(first) else first
            state[key] = _filled(value, parameter, f"optimizer, state {key!r} of {name}")
        return state

    def _check_state(self, state: object, field: str) -> None:
        """Check the names and initial values of a parameter's state; raise JobError if one is not accepted."""
        if not isinstance(state, Mapping):
            remedy = 'give a dictionary of initial values, such as state={"mean": 0.0}'
            raise JobError(field, f"the state is {type(state).__name__}, not a dictionary", remedy)
        _check_names(state)
        if both := sorted(set(state) & set(self.numbers)):
            reason = f"the name {both[0]!r} is in state= and in numbers="
            raise JobError(field, reason, "use different names in state= and numbers=")
        for name, value in state.items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not callable(value) and not is_number:
                _check_tensor(f"{field}, state {name!r}", value)

    @property
    def steps(self) -> int:
        """Number of steps that the optimizer has made."""
        count: int = self._kept("steps", 0)
        return count

    def numbers_of(self, index: int) -> dict[str, Tensor]:
        """Return the present numbers of a group."""
        numbers: list[dict[str, Tensor]] = self._kept("numbers", [])
        return dict(numbers[index]) if numbers else first_numbers(self)

    def state_of(self, name: str, parameter: Tensor) -> dict[str, Tensor]:
        """Return the present state of a parameter, or its initial state if there was no step yet."""
        if parameter in self.state:
            return {key: tensor.clone() for key, tensor in self.state[parameter].items()}
        return self.first_state(name, parameter.detach())

    def _kept(self, name: str, otherwise: Any) -> Any:
        """Return the entry ``name`` of ``self.state``, or ``otherwise`` if there is no such entry.

        ``step()`` stores its values in ``self.state``, so that ``state_dict()`` contains them.
        """
        entries: Mapping[Any, Any] = self.state
        return entries.get(name, otherwise)

    @torch.no_grad()
    def step(self, closure: Loss | None = None) -> Tensor | None:  # type: ignore[override]
        """Move all parameters that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        count = self.steps
        numbers = [self.numbers_of(index) for index in range(len(self.param_groups))]
        for index, group in enumerate(self.param_groups):
            named = [
                (f"parameter {place} of group {index}", parameter)
                for place, parameter in enumerate(group["params"])
                if parameter.grad is not None
            ]
            if not named:
                continue
            before = RuleStep(
                number=torch.tensor(count),
                lr=torch.tensor(float(group["lr"])),
                options=self.options(group),
                numbers=numbers[index],
            )
            parts = [(parameter.detach(), parameter.grad, self.state_of(name, parameter)) for name, parameter in named]
            now = begun(self, parts, before)
            numbers[index] = dict(now.numbers)
            for (name, parameter), part in zip(named, parts, strict=True):
                value, state = moved(self, name, part, now)
                parameter.copy_(value)
                self.state[parameter] = state
        entries: dict[Any, Any] = self.state
        entries.update(steps=count + 1, numbers=numbers)
        return loss


def update_rule(
    function: Move,
    params: "Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]",
    *,
    lr: float = 1e-3,
    state: "States | None" = None,
    numbers: Mapping[str, float] | None = None,
    begin: Begin | None = None,
    **options: Any,
) -> UpdateRule:
    """Return an optimizer of torch that moves each of ``params`` by a custom function.

    ``function(parameter, gradient, state, step)`` returns the parameter after the step, and the state that the next
    step gets. ``step`` is a :class:`RuleStep`: the number of the step, its learning rate, and ``options``. ``params``
    are parameters, or parameter groups with their own learning rates and options, as in ``torch.optim``.

    ``state`` maps each name in a parameter's state to its value before the first step. The value is a number, a tensor,
    or a function of the parameter that returns a number or a tensor. A number fills a tensor of the parameter's shape.
    If the states of parameters have different names, ``state`` is a function from the parameter to such a mapping.

    ``numbers`` maps names to values that all parameters of a group share, as they are before the first step. In each
    step, ``begin(parameters, gradients, states, step)`` is called before ``function``. ``begin`` gets lists of all
    parameters of the group that have a gradient. It returns the new numbers, which ``function`` reads from
    ``step.numbers``.

    Python runs once, when a job is built. So each value that changes between steps must be a tensor in ``state`` or
    ``numbers``. A choice that depends on the step needs ``torch.where(step.number % 5 == 0, …, …)``.

    Raises JobError if a state is not FP32. A step raises JobError, with the line of the function, if the function
    returns a value that is not accepted.

    Example::

        def momentum(parameter, gradient, state, step):
            mean = step.options["beta"] * state["mean"] + gradient
            return parameter - step.lr * mean, {"mean": mean}

        optimizer = assay.update_rule(momentum, model.parameters(), lr=0.1, state={"mean": 0.0}, beta=0.9)
    """
    return UpdateRule(
        function,
        params,
        lr=lr,
        state=state or {},
        numbers=numbers or {},
        begin=begin,
        options=options,
    )


def _check_function(function: object, field: str, remedy: str) -> None:
    if not callable(function):
        raise JobError(field, f"{type(function).__name__} is not a function", remedy)
    try:
        signature(function).bind(*range(4))
    except TypeError:
        place = place_of_function(function, field)
        raise JobError(str(place), "it does not take four arguments", remedy) from None
    except ValueError:
        # The signature of the function is unknown.
        return


def _filled(value: object, parameter: Tensor, field: str) -> Tensor:
    """Return an initial value of a state as a tensor; a number fills the parameter's shape."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return torch.full_like(parameter, value)
    _check_tensor(field, value)
    assert isinstance(value, Tensor)
    return value.detach().clone()


def _check_names(named: Mapping[Any, object]) -> None:
    for name in named:
        if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
            remedy = 'use letters, digits and underscores, such as "exp_avg"'
            raise JobError("optimizer", f"{name!r} cannot be a name in the state", remedy)


def _check_numbers(numbers: Mapping[str, object], begin: object) -> None:
    _check_names(numbers)
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise JobError(f"optimizer, number {name!r}", f"is {value!r}, not a number", "give a number, such as 0.0")
    if bool(numbers) != (begin is not None):
        reason = "numbers= and begin= need each other: begin returns the numbers of each step"
        remedy = "give both: numbers={'total': 0.0}, begin=function"
        raise JobError("optimizer", reason, remedy)


def _check_tensor(field: str, value: object) -> None:
    if not isinstance(value, Tensor):
        remedy = "give a number, a tensor, or a function of the parameter that returns a number or a tensor"
        raise JobError(field, f"is {type(value).__name__}", remedy)
    if value.dtype != torch.float32:
        kind = str(value.dtype).removeprefix("torch.")
        reason = f"is {kind}, and the state of an optimizer is float32"
        if not value.is_floating_point():
            remedy = "use a float32 tensor, which is exact up to 2^24; to count steps, use step.number"
        else:
            remedy = "convert the tensor with .float()"
        raise JobError(field, reason, remedy)


def first_numbers(rule: UpdateRule) -> dict[str, Tensor]:
    """Return the numbers of a group before the first step."""
    return {name: torch.tensor(float(value)) for name, value in rule.numbers.items()}


Part = tuple[Tensor, Tensor, dict[str, Tensor]]
"""A parameter, its gradient and its state."""


def begun(rule: UpdateRule, parts: Sequence[Part], step: RuleStep) -> RuleStep:
    """Return the step with the numbers that the rule's ``begin`` returns for a group."""
    if rule.begin is None:
        return step
    copies = [_copied(part) for part in parts]
    parameters, gradients, states = (list(column) for column in zip(*copies, strict=True))
    field = "optimizer, begin"
    result = called(rule.begin, field, parameters, gradients, states, step)
    where = str(place_of_function(rule.begin, field))
    numbers = _checked(where, result, step.numbers, "numbers")
    return replace(step, numbers=numbers)


def moved(rule: UpdateRule, name: str, part: Part, step: RuleStep) -> tuple[Tensor, dict[str, Tensor]]:
    """Apply a rule to the parameter ``name``; return the new parameter and its new state.

    Raises JobError, with the rule's line and the parameter, if the rule returns a value that is not accepted.
    """
    field = f"optimizer, {name}"
    parameter, _, state = part
    result = called(rule.function, field, *_copied(part), step)
    where = str(place_of_function(rule.function, field))
    if not isinstance(result, tuple) or len(result) != 2:
        reason = f"the rule returns {type(result).__name__}, not a tuple of two"
        raise JobError(where, reason, "return (parameter, state), the state as a dictionary")
    value, after = result
    check_returned(where, "the parameter", value, parameter.shape)
    return value, _checked(where, after, state, "state")


def _copied(part: Part) -> Part:
    """Return copies of a part, because a rule may change its tensors in place."""
    value, gradient, state = part
    return value.clone(), gradient.clone(), {name: tensor.clone() for name, tensor in state.items()}


def called(function: Callable[..., object], field: str, *arguments: object) -> object:
    """Call a rule's function; turn an exception into a JobError with the line that raised it."""
    try:
        return function(*arguments)
    except JobError:
        raise
    except Exception as error:
        reason, remedy = in_words(error, _ANOTHER_WAY)
        if isinstance(error, KeyError):
            reason = f"there is no {error.args[0]!r} in the state, the numbers or the options"
            remedy = f"add it to update_rule: state={{{error.args[0]!r}: 0.0}}, or as an option, {error.args[0]}=0.0"
        raise JobError(str(place_of_error(error)), reason, remedy) from error


calls_rules(called)


def _checked(where: str, result: object, before: Mapping[str, Tensor], what: str) -> dict[str, Tensor]:
    """Return the named tensors of a rule; raise JobError if their names or shapes differ from those of ``before``."""
    if not isinstance(result, Mapping):
        reason = f"the rule returns {type(result).__name__} as {what}, not a dictionary"
        raise JobError(where, reason, f"return a dictionary with the same names as the {what} that the rule gets")
    if missing := [name for name in before if name not in result]:
        remedy = "return every name, also those whose values do not change"
        raise JobError(where, f"the rule returns no {missing[0]!r} in its {what}", remedy)
    if more := [name for name in result if name not in before]:
        remedy = f"add its value before the first step: update_rule(…, {what}={{{more[0]!r}: 0.0}})"
        raise JobError(where, f"the rule returns {more[0]!r}, which is not in its initial {what}", remedy)
    for name, value in before.items():
        check_returned(where, repr(name), result[name], value.shape)
    return {name: result[name] for name in before}


def check_returned(where: str, what: str, value: object, shape: torch.Size) -> None:
    """Raise JobError unless ``value`` is an FP32 tensor of this shape."""
    if not isinstance(value, Tensor):
        reason = f"the rule returns {type(value).__name__} for {what}"
        remedy = (
            "return a tensor computed from the tensors that the rule gets; Python runs once, when the job is built, so "
            "a Python number would be the same in every step"
        )
        raise JobError(where, reason, remedy)
    if value.shape != shape:
        reason = f"the rule returns the shape {list(value.shape)} for {what}, but it must be {list(shape)}"
        raise JobError(where, reason, f"return a tensor of shape {list(shape)}")
    if value.dtype != torch.float32:
        kind = str(value.dtype).removeprefix("torch.")
        raise JobError(where, f"the rule returns {kind} for {what}", "return float32: .float()")


@dataclass(frozen=True, slots=True)
class OwnRule:
    """A custom update rule, in the form of a job's rule for one group of parameters.

    If the rule has already made steps, it continues from its state. ``parameters`` maps names to the parameters of the
    group.
    """

    rule: UpdateRule
    index: int
    parameters: Mapping[str, Tensor]

    def initial(self, name: str, value: Tensor) -> dict[str, Tensor]:
        """Return the rule's present state of a parameter, or its initial state for ``value`` if there is none yet."""
        parameter = self.parameters[name]
        is_new = parameter not in self.rule.state
        return self.rule.first_state(name, value) if is_new else self.rule.state_of(name, parameter)

    def shapes(self, shape: torch.Size) -> dict[str, torch.Size]:
        """Return an empty dictionary. The shapes are not needed here, because :meth:`initial` makes the state of each
        parameter.
        """
        del shape
        return {}

    def numbers(self) -> dict[str, float]:
        """Return the numbers of the group."""
        return {name: float(value) for name, value in self.rule.numbers_of(self.index).items()}

    def tables(self, steps: int) -> dict[str, list[float]]:
        """Return an empty dictionary, because a custom rule has no tables."""
        del steps
        return {}

    def begin(self, numbers: Mapping[str, Tensor], now: Now) -> tuple[dict[str, Tensor], Mapping[str, Tensor]]:
        """Return the numbers of the group after the rule's ``begin``."""
        if not now.parameters:
            return {}, numbers
        step = self._step(now, numbers)
        parts = [_part(of) for of in now.parameters]
        after = dict(begun(self.rule, parts, step).numbers)
        return after, after

    def update(self, of: ParameterState, now: Now, common: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Move the parameter by the rule."""
        return moved(self.rule, of.name, _part(of), self._step(now, common))

    def _step(self, now: Now, numbers: Mapping[str, Tensor]) -> RuleStep:
        """Return a step of the job in the form that the rule gets."""
        options = self.rule.options(self.rule.param_groups[self.index])
        if "momentum" in now.varying:
            options["momentum"] = now.varying["momentum"]
        if "beta1" in now.varying:
            options["betas"] = (now.varying["beta1"], *options["betas"][1:])
        done = self.rule.steps
        number = now.step + done if done else now.step
        return RuleStep(number=number, lr=now.lr, options=options, numbers=numbers)


def _part(of: ParameterState) -> Part:
    return of.value, of.gradient, dict(of.state)


# --- state that a rule keeps in Python ------------------------------------------------------------

_TRIED_ELEMENTS = 2**20
"""Largest number of elements of a parameter on which a rule is tried."""
_PLAIN = (bool, int, float, str, type(None))
_IN_STATE = "keep it in state={…} or numbers={…} of update_rule, or compute it from step.number"


def check_repeatable(rule: UpdateRule, group: Mapping[str, Any]) -> None:
    """Raise JobError if the second call of a rule gives another result than the first, because a job calls the rule
    only once.

    The rule is called with random gradients. For each number of dimensions, only the smallest parameter with this
    number is used. The function also raises JobError for the same reasons as :func:`moved`.
    """
    smallest: dict[int, Tensor] = {}
    for parameter in sorted(group["params"], key=Tensor.numel):
        if parameter.numel() <= _TRIED_ELEMENTS:
            smallest.setdefault(parameter.dim(), parameter)
    for parameter in smallest.values():
        shape = "×".join(map(str, parameter.shape)) or "one"
        name = f"a parameter of {shape} elements"
        field = str(place_of_function(rule.function, f"optimizer, {name}"))
        before = _left_in_python(rule)
        first = _tried(rule, group, name, parameter)
        after = _left_in_python(rule)
        if changed := [key for key, value in after.items() if before.get(key, value) != value]:
            reason = f"the rule changes the Python variable {changed[0]}, and Python runs once, when the job is built"
            raise JobError(field, reason, _IN_STATE)
        second = _tried(rule, group, name, parameter)
        if not all(torch.equal(one, other) for one, other in zip(first, second, strict=True)):
            reason = "the rule returns different values for the same arguments: it keeps or draws a value in Python"
            raise JobError(field, reason, f"{_IN_STATE}; draw with torch.rand or torch.randn")


def _tried(rule: UpdateRule, group: Mapping[str, Any], name: str, parameter: Tensor) -> list[Tensor]:
    """Return the parameter and the state tensors after one step of a rule with a random gradient."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        gradient = torch.randn(parameter.shape)
        value = parameter.detach().clone()
        state = rule.first_state(name, value)
        step = RuleStep(
            number=torch.tensor(0),
            lr=torch.tensor(float(group["lr"])),
            options=rule.options(group),
            numbers=first_numbers(rule),
        )
        part = value, gradient, state
        value_after, state_after = moved(rule, name, part, begun(rule, [part], step))
        return [value_after.nan_to_num(), *(tensor.nan_to_num() for tensor in state_after.values())]


def _left_in_python(rule: UpdateRule) -> dict[str, object]:
    """Return the plain values that a rule's functions can reach, by their names."""
    values: dict[str, object] = {}
    waiting: list[object] = [rule.function, rule.begin]
    seen: list[object] = []
    while waiting:
        function = waiting.pop()
        if function is None or any(function is one for one in seen):
            continue
        seen.append(function)
        names: dict[str, object] = {}
        if isinstance(function, partial):
            waiting.append(function.func)
        elif isinstance(function, FunctionType):
            reached = getclosurevars(function)
            names = {**reached.globals, **reached.nonlocals}
        elif isinstance(function, MethodType):
            waiting.append(function.__func__)
            names = vars(function.__self__) if hasattr(function.__self__, "__dict__") else {}
        elif callable(function) and hasattr(function, "__dict__"):
            names = vars(function)
            waiting.append(type(function).__call__)
        for name, value in names.items():
            if isinstance(value, _PLAIN):
                values[name] = value
            elif isinstance(value, list | dict | set):
                values[name] = repr(value)
            elif isinstance(value, FunctionType | MethodType | partial):
                waiting.append(value)
    return values
