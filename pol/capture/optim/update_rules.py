"""Update rules of a person's own: one function moves one parameter, in a loop of plain torch as in a job.

An :class:`UpdateRule` is an optimizer of torch. Its ``step()`` calls the function on tensors; a job calls the same
function during the capture of a step. Whatever the function returns is checked by :func:`moved`, in both.
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
"""What a group of torch has besides the options of a rule."""
_ANOTHER_WAY = "write it in another way there (docs/jobs.md lists what works)"


@dataclass(frozen=True, slots=True)
class RuleStep(Readable):
    """One step as an update rule sees it.

    ``number`` counts the updates from 0 (an integer tensor of shape []), and ``lr`` is the learning rate of this one
    (FP32, shape []), as the schedule says. ``options`` are those that the rule was given, or the group of parameters.
    ``numbers`` are those of the whole group, of which ``begin`` has made this step's.

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
"""Names of what is kept of a parameter, with what it is before the first step."""
States = State | Callable[[Tensor], State]
Move = Callable[[Tensor, Tensor, dict[str, Tensor], RuleStep], tuple[Tensor, Mapping[str, Tensor]]]
"""(parameter, gradient, state, step) to (parameter, state)."""
Begin = Callable[[list[Tensor], list[Tensor], list[dict[str, Tensor]], RuleStep], Mapping[str, "Tensor"]]
"""All parameters of a group, their gradients and states, and the step, to the group's numbers."""


class UpdateRule(Optimizer):
    """An optimizer that moves each parameter by a function; :func:`update_rule` makes one.

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
                reason = f"group {index} has {unknown[0]!r}, which the rule was not given"
                raise JobError("optimizer", reason, f"give update_rule(…, {unknown[0]}=…); it has {known}")

    def __getstate__(self) -> dict[str, Any]:
        """Return what copies have, which torch would leave only its own of."""
        own = ("function", "begin", "initial", "numbers", "_options")
        return {**super().__getstate__(), **{name: getattr(self, name) for name in own}}

    def options(self, group: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a group that the rule reads."""
        return {name: group[name] for name in self._options}

    def first_state(self, name: str, parameter: Tensor) -> dict[str, Tensor]:
        """Return the state of a parameter before its first step.

        Raises JobError where something is not FP32.
        """
        field = f"optimizer, state of {name}"
        initial: object = self.initial
        if callable(initial):
            initial = called(initial, field, parameter.clone())
            self._check_state(initial, field)
        assert isinstance(initial, Mapping)
        found = {}
        for key, first in initial.items():
            value = called(first, field, parameter.clone()) if callable(first) else first
            found[key] = _filled(value, parameter, f"optimizer, state {key!r} of {name}")
        return found

    def _check_state(self, state: object, field: str) -> None:
        """Refuse names and first values that no state of a parameter has."""
        if not isinstance(state, Mapping):
            remedy = 'give names and first values, as state={"mean": 0.0}'
            raise JobError(field, f"the state is {type(state).__name__}", remedy)
        _check_names(state)
        if both := sorted(set(state) & set(self.numbers)):
            reason = f"{both[0]!r} is in the state of each parameter and a number of the group"
            raise JobError(field, reason, "give them two names")
        for name, value in state.items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not callable(value) and not is_number:
                _check_tensor(f"{field}, state {name!r}", value)

    @property
    def steps(self) -> int:
        """The steps that it has made."""
        found: int = self._kept("steps", 0)
        return found

    def numbers_of(self, index: int) -> dict[str, Tensor]:
        """Return the numbers of a group as they are now."""
        found: list[dict[str, Tensor]] = self._kept("numbers", [])
        return dict(found[index]) if found else first_numbers(self)

    def state_of(self, name: str, parameter: Tensor) -> dict[str, Tensor]:
        """Return the state of a parameter as it is now: that before the first step, if there was none yet."""
        if parameter in self.state:
            return {key: tensor.clone() for key, tensor in self.state[parameter].items()}
        return self.first_state(name, parameter.detach())

    def _kept(self, name: str, otherwise: Any) -> Any:
        """Return what ``step()`` keeps beside the states of parameters, where ``state_dict()`` has it, too."""
        kept: Mapping[Any, Any] = self.state
        return kept.get(name, otherwise)

    @torch.no_grad()
    def step(self, closure: Loss | None = None) -> Tensor | None:  # type: ignore[override]
        """Move all parameters that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        count = self.steps
        kept = [self.numbers_of(index) for index in range(len(self.param_groups))]
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
                numbers=kept[index],
            )
            parts = [(parameter.detach(), parameter.grad, self.state_of(name, parameter)) for name, parameter in named]
            now = begun(self, parts, before)
            kept[index] = dict(now.numbers)
            for (name, parameter), part in zip(named, parts, strict=True):
                value, state = moved(self, name, part, now)
                parameter.copy_(value)
                self.state[parameter] = state
        kept_too: dict[Any, Any] = self.state
        kept_too.update(steps=count + 1, numbers=kept)
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
    """Return an optimizer of torch that moves each of ``params`` by a function of one's own.

    ``function(parameter, gradient, state, step)`` returns the parameter after the step, and the state that the next
    step gets. ``state`` says what each parameter's state is before the first step, by name: a number, which fills a
    tensor of the parameter's shape; a tensor; or a function of the parameter that returns one of both. Where parameters
    differ in what they keep, ``state`` is a function of the parameter that returns all of it. ``step`` is a
    :class:`RuleStep`: the number of the step, its learning rate, and ``options``. ``params`` are parameters, or groups
    of them with a learning rate and options of their own, as those of ``torch.optim`` are.

    ``numbers`` are values that a group shares, as they are before the first step. Once per step, before the parameters
    move, ``begin(parameters, gradients, states, step)`` gets lists of all parameters of the group that have a gradient.
    It returns the new numbers, which the function reads from ``step.numbers``.

    Python runs once, when a job is built: whatever changes from step to step is a tensor in ``state`` or ``numbers``,
    and what depends on the step is chosen by ``torch.where(step.number % 5 == 0, …, …)``.

    Raises JobError for a state that is not FP32; when it runs, for what the function returns, with its line.

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
        raise JobError(field, f"{type(function).__name__} is no function", remedy)
    try:
        signature(function).bind(*range(4))
    except TypeError:
        place = place_of_function(function, field)
        raise JobError(str(place), "it does not take four arguments", remedy) from None
    except ValueError:
        # nothing is known of its arguments
        return


def _filled(value: object, parameter: Tensor, field: str) -> Tensor:
    """Return a first value of a state as a tensor; a number fills the parameter's shape."""
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
            raise JobError(f"optimizer, number {name!r}", f"is {value!r}", "give a number, as 0.0")
    if bool(numbers) != (begin is not None):
        reason = "numbers of a group change by begin=, and one is given without the other"
        remedy = "give both: numbers={'total': 0.0}, begin=function"
        raise JobError("optimizer", reason, remedy)


def _check_tensor(field: str, value: object) -> None:
    if not isinstance(value, Tensor):
        remedy = "give a number, a tensor, or a function of the parameter that returns one"
        raise JobError(field, f"is {type(value).__name__}", remedy)
    if value.dtype != torch.float32:
        kind = str(value.dtype).removeprefix("torch.")
        reason = f"is {kind}, and the state of an optimizer is float32"
        if not value.is_floating_point():
            remedy = "keep it as a float32 tensor, exact up to 2^24; step.number counts the steps"
        else:
            remedy = "give .float()"
        raise JobError(field, reason, remedy)


def first_numbers(rule: UpdateRule) -> dict[str, Tensor]:
    """Return the numbers of a group before the first step."""
    return {name: torch.tensor(float(value)) for name, value in rule.numbers.items()}


Part = tuple[Tensor, Tensor, dict[str, Tensor]]
"""A parameter, its gradient and its state."""


def begun(rule: UpdateRule, parts: Sequence[Part], step: RuleStep) -> RuleStep:
    """Return the step with the numbers that a rule's ``begin`` makes of a group."""
    if rule.begin is None:
        return step
    copies = [_copied(part) for part in parts]
    parameters, gradients, states = (list(column) for column in zip(*copies, strict=True))
    field = "optimizer, begin"
    found = called(rule.begin, field, parameters, gradients, states, step)
    where = str(place_of_function(rule.begin, field))
    numbers = _checked(where, found, step.numbers, "numbers")
    return replace(step, numbers=numbers)


def moved(rule: UpdateRule, name: str, part: Part, step: RuleStep) -> tuple[Tensor, dict[str, Tensor]]:
    """Return what a rule makes of a parameter that is called ``name``, and of its state.

    Raises JobError, which names the rule's line and the parameter, for what no step can keep.
    """
    field = f"optimizer, {name}"
    parameter, _, state = part
    found = called(rule.function, field, *_copied(part), step)
    where = str(place_of_function(rule.function, field))
    if not isinstance(found, tuple) or len(found) != 2:
        reason = f"the rule returns {type(found).__name__}, and not two things"
        raise JobError(where, reason, "return (parameter, state), the state as a dictionary")
    value, after = found
    check_returned(where, "the parameter", value, parameter.shape)
    return value, _checked(where, after, state, "state")


def _copied(part: Part) -> Part:
    """Return copies, which a rule may change in place."""
    value, gradient, state = part
    return value.clone(), gradient.clone(), {name: kept.clone() for name, kept in state.items()}


def called(function: Callable[..., object], field: str, *arguments: object) -> object:
    """Call a rule's function; where it fails, its own line is the place."""
    try:
        return function(*arguments)
    except JobError:
        raise
    except Exception as error:
        reason, remedy = in_words(error, _ANOTHER_WAY)
        if isinstance(error, KeyError):
            reason = f"there is no {error.args[0]!r}"
            remedy = f"give it to update_rule: state={{{error.args[0]!r}: 0.0}}, or as an option"
        raise JobError(str(place_of_error(error)), reason, remedy) from error


calls_rules(called)


def _checked(where: str, found: object, before: Mapping[str, Tensor], what: str) -> dict[str, Tensor]:
    """Return named tensors that a rule gives, which are those that it was given."""
    if not isinstance(found, Mapping):
        reason = f"the rule returns {type(found).__name__} as {what}"
        raise JobError(where, reason, "return a dictionary with the names that it was given")
    if missing := [name for name in before if name not in found]:
        remedy = "return all of it, also what stays as it is"
        raise JobError(where, f"the rule returns no {missing[0]!r} in its {what}", remedy)
    if more := [name for name in found if name not in before]:
        remedy = f"give update_rule(…, {what}={{{more[0]!r}: 0.0}}), the value before the first step"
        raise JobError(where, f"the rule returns {more[0]!r}, which its {what} did not begin with", remedy)
    for name, value in before.items():
        check_returned(where, repr(name), found[name], value.shape)
    return {name: found[name] for name in before}


def check_returned(where: str, what: str, value: object, shape: torch.Size) -> None:
    """Refuse what is no FP32 tensor of a shape."""
    if not isinstance(value, Tensor):
        reason = f"the rule returns {type(value).__name__} for {what}"
        remedy = (
            "return a tensor made of those that the rule is given: Python runs once, when the job is built, and a "
            "number of it would be the same in every step"
        )
        raise JobError(where, reason, remedy)
    if value.shape != shape:
        reason = f"the rule returns {list(value.shape)} for {what}, which is {list(shape)}"
        raise JobError(where, reason, "keep its shape")
    if value.dtype != torch.float32:
        kind = str(value.dtype).removeprefix("torch.")
        raise JobError(where, f"the rule returns {kind} for {what}", "return float32: .float()")


@dataclass(frozen=True, slots=True)
class OwnRule:
    """An update rule of a person's own, with one of its groups, as a rule of a job.

    A rule that has made steps goes on from its state. ``parameters`` are those of the group by their names.
    """

    rule: UpdateRule
    index: int
    parameters: Mapping[str, Tensor]

    def initial(self, name: str, value: Tensor) -> dict[str, Tensor]:
        """Return the state that the rule has of a parameter, or that it says of its value."""
        parameter = self.parameters[name]
        is_new = parameter not in self.rule.state
        return self.rule.first_state(name, value) if is_new else self.rule.state_of(name, parameter)

    def shapes(self, shape: torch.Size) -> dict[str, torch.Size]:
        """Return none: the rule says what it keeps of each parameter."""
        del shape
        return {}

    def numbers(self) -> dict[str, float]:
        """Return the numbers of the group."""
        return {name: float(value) for name, value in self.rule.numbers_of(self.index).items()}

    def tables(self, steps: int) -> dict[str, list[float]]:
        """None."""
        del steps
        return {}

    def begin(self, numbers: Mapping[str, Tensor], now: Now) -> tuple[dict[str, Tensor], Mapping[str, Tensor]]:
        """Let the rule make the group's numbers."""
        if not now.parameters:
            return {}, numbers
        step = self._step(now, numbers)
        parts = [_part(of) for of in now.parameters]
        found = dict(begun(self.rule, parts, step).numbers)
        return found, found

    def update(self, of: ParameterState, now: Now, common: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Let the rule move the parameter."""
        return moved(self.rule, of.name, _part(of), self._step(now, common))

    def _step(self, now: Now, numbers: Mapping[str, Tensor]) -> RuleStep:
        """Return a step of the job as the rule sees it."""
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


# --- what a rule leaves in Python -----------------------------------------------------------------

_TRIED_ELEMENTS = 2**20
"""Elements of the largest parameter that a rule is tried on."""
_PLAIN = (bool, int, float, str, type(None))
_IN_STATE = "keep it in state={…} or numbers={…} of update_rule, or take it from step.number"


def check_repeatable(rule: UpdateRule, group: Mapping[str, Any]) -> None:
    """Refuse a rule whose second call differs from its first: a job calls it once, when it is built.

    It is called on the smallest parameter of each number of dimensions, with random gradients.

    Raises JobError, also for all that :func:`moved` refuses.
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
            reason = f"the rule changes {changed[0]} in Python, which runs once, when the job is built"
            raise JobError(field, reason, _IN_STATE)
        second = _tried(rule, group, name, parameter)
        if not all(torch.equal(one, other) for one, other in zip(first, second, strict=True)):
            reason = "the rule gives other values when it is called again with the same, by what Python keeps or draws"
            raise JobError(field, reason, f"{_IN_STATE}; draw with torch.rand or torch.randn")


def _tried(rule: UpdateRule, group: Mapping[str, Any], name: str, parameter: Tensor) -> list[Tensor]:
    """Return what a rule makes of a parameter and a random gradient."""
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
        found, after = moved(rule, name, part, begun(rule, [part], step))
        return [found.nan_to_num(), *(tensor.nan_to_num() for tensor in after.values())]


def _left_in_python(rule: UpdateRule) -> dict[str, object]:
    """Return the plain values that a rule's functions can reach, by their names."""
    found: dict[str, object] = {}
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
                found[name] = value
            elif isinstance(value, list | dict | set):
                found[name] = repr(value)
            elif isinstance(value, FunctionType | MethodType | partial):
                waiting.append(value)
    return found
