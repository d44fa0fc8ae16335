"""The programs at the end of a round on the machines of a group: ``close`` and ``outer``.

Their plans have a stage per machine. Each machine reads the tensors that its nodes need from files, and hashes and
writes those of which it is the keeper. No machine holds a whole state, unless the program itself needs all tensors at
once.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pol.errors import NotFinite, StateError
from pol.executor.interface import Backend
from pol.job.document import Job, JobDocument
from pol.job.updates import AGGREGATE, END, OPENING, UPDATE, UPDATES, kind_of
from pol.machines.form import CLOSE, GLOBAL, LOCAL, OUTER, EndForm, FileForm
from pol.machines.messages import Hash, Make
from pol.split.exchanges import Moves
from pol.split.machine import Machine
from pol.split.member import Member
from pol.split.plan import Plan, Send, plan_end
from pol.state.arrays import Array, canonical_array, raw_bytes
from pol.state.canonical import parts_of, tensor_leaves
from pol.state.layout import header_chunk
from pol.state.pieces import iter_tensors
from pol.values import TensorSpec
from pol.work.updates.table import codec_of

Drive = Callable[[Moves[dict[str, Array]]], dict[str, Array]]


@dataclass(frozen=True)
class End:
    """A program at the end of a round, on machines: its plan, and the machines of the tensors of its files.

    ``plan`` is None if each tensor of the results needs only the same tensor of what is read.
    """

    plan: Plan | None
    form: EndForm


def prefixes_of(document: JobDocument, program: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the beginnings of the names of a program's inputs, by the files that it reads, and of its outputs, by
    those that it writes.
    """
    if program == CLOSE:
        return (f"{OPENING}.", f"{END}.", LOCAL), (f"{UPDATE}.", LOCAL)
    of_updates = UPDATES if kind_of(document).is_coded else AGGREGATE
    return (GLOBAL, f"{of_updates}."), (GLOBAL,)


def end_of(document: JobDocument, program: str, machines: int, machine: Machine) -> End:
    """Return a program at the end of a round, ``close`` or ``outer``, on some machines of equal kind."""
    update = kind_of(document).tensors(document)
    first, second = document.global_tensors, document.local_tensors
    read, written = ((first, first, second), (update, second)) if program == CLOSE else ((first, update), (first,))
    before, after = prefixes_of(document, program)
    plan = plan_of_end(document, program, machines, machine)
    if plan is None:
        readers = _alike(first, machines)
        ends = {f"{UPDATE}.{spec.name}": min(readers[f"{END}.{spec.name}"]) for spec in update}
    else:
        readers, ends = _readers(plan), dict(plan.ends_at)
    kept = _keepers(
        [(prefix + s.name, s.type.size) for prefix, specs in zip(before, read, strict=True) for s in specs],
        readers,
        ends,
        machines,
    )
    return End(
        plan,
        EndForm(
            reads=tuple(_file_form(prefix, specs, kept, readers) for prefix, specs in zip(before, read, strict=True)),
            # A tensor of the state that the program does not change is copied by its keeper.
            writes=tuple(_file_form(p, specs, kept | ends, {}) for p, specs in zip(after, written, strict=True)),
        ),
    )


def plan_of_end(document: JobDocument, program: str, machines: int, machine: Machine) -> Plan | None:
    """Return the plan of a program at the end of a round; None if a job without ``close`` makes its updates."""
    found = document.close if program == CLOSE else document.outer
    return None if found is None else _spread(plan_end(found, [machine] * machines))


def _spread(plan: Plan) -> Plan:
    """Return a plan with outputs that no node computes, such as means of updates, on all machines evenly."""
    program = plan.program
    used = range(len(plan.machines))
    given = {
        name: program.types[number].size
        for name, number in program.outputs.items()
        if number < len(program.inputs) and program.inputs[number].name not in plan.homes
    }
    loads = [0] * len(used)
    for name, number in program.outputs.items():
        if name not in given:
            loads[plan.ends_at[name]] += program.types[number].size
    ends = dict(plan.ends_at)
    for name in sorted(given, key=lambda name: (-given[name], name)):
        ends[name] = min(used, key=lambda machine: (loads[machine], machine))
        loads[ends[name]] += given[name]
    return replace(plan, stages=tuple((machine,) for machine in used), ends_at=ends)


def _readers(plan: Plan) -> dict[str, set[int]]:
    """Return the machines that read each input of a program from a file."""
    program = plan.program
    found: dict[str, set[int]] = {}

    def note(number: int, machines: Sequence[int]) -> None:
        if number < len(program.inputs):
            at_start = plan.starts_at(number)
            reading = found.setdefault(program.inputs[number].name, set())
            reading.update(machine for machine in machines if machine in at_start)

    for action in plan.actions:
        if isinstance(action, Send):
            note(action.value, (action.source,))
        else:
            for arg in program.nodes[action.offset].args:
                note(arg, action.machines)
    for name, number in program.outputs.items():
        note(number, (plan.ends_at[name],))
    return found


def _alike(specs: Sequence[TensorSpec], machines: int) -> dict[str, set[int]]:
    """Return machines for the tensors before and after a round, if each tensor of an update needs only its own."""
    places = _keepers([(spec.name, spec.type.size) for spec in specs], {}, {}, machines)
    return {f"{prefix}.{name}": {place} for prefix in (OPENING, END) for name, place in places.items()}


def _keepers(
    sizes: Sequence[tuple[str, int]], readers: Mapping[str, set[int]], ends: Mapping[str, int], machines: int
) -> dict[str, int]:
    """Return the machine that looks after each tensor of the files that are read, by the names of inputs.

    A tensor that the program changes stays where it ends. All others go where the fewest bytes are, if possible to a
    machine that reads them.
    """
    kept = {}
    loads = [0] * machines
    for name, size in sorted(sizes, key=lambda pair: (-pair[1], pair[0])):
        among = [ends[name]] if name in ends else sorted(readers.get(name, ())) or range(machines)
        kept[name] = min(among, key=lambda machine: (loads[machine], machine))
        loads[kept[name]] += size
    return kept


def _file_form(
    prefix: str, specs: Sequence[TensorSpec], kept: Mapping[str, int], readers: Mapping[str, set[int]]
) -> FileForm:
    names = [prefix + spec.name for spec in specs]
    return FileForm(
        keepers=tuple(kept[name] for name in names),
        readers=tuple(tuple(sorted({kept[name], *readers.get(name, ())})) for name in names),
    )


@dataclass(frozen=True)
class _File:
    """A file that a program reads. ``specs`` are all of its tensors, and ``kept`` those that this machine hashes."""

    path: Path
    specs: Sequence[TensorSpec]
    kept: frozenset[str]

    def read(self, names: Collection[str]) -> Iterator[tuple[str, Array]]:
        """Yield some tensors, one after another, in the order of the file.

        Raises StateError (never its subclass NotFinite) if the file does not hold them.
        """
        try:
            yield from iter_tensors(self.path, self.specs, names)
        except NotFinite as error:
            raise StateError(error.field, error.reason) from None


class Ends:
    """A machine's part of the programs at the end of a round."""

    def __init__(self, job: Job, number: int, machines: int, machine: Machine, backend: Backend, drive: Drive) -> None:
        """``number`` is one of the group's ``machines``, which are all like ``machine``. ``drive`` runs its moves."""
        self._job, self._number, self._machines = job, number, machines
        self._machine, self._backend, self._drive = machine, backend, drive
        self._made: dict[str, tuple[End, Member | None]] = {}

    def hash(self, command: Hash) -> dict[str, bytes]:
        """Return the hashes of the tensors that this machine looks after, in the files that a program reads."""
        return {
            f"{index}.{name}": b"".join(tensor_leaves(array, name))
            for index, file in enumerate(self._files(command))
            for name, array in file.read(file.kept)
        }

    def make(self, command: Make) -> dict[str, bytes]:
        """Run a program, write the tensors of the results that this machine looks after, and return their hashes.

        Raises NotFinite and OutOfRange if there is no result.
        """
        files = self._files(command)
        outputs = self._run(command.program, files)
        _, prefixes = prefixes_of(self._document, command.program)
        written = self._end(command.program)[0].form.writes
        leaves: dict[str, bytes] = {}
        for index, (path, prefix, form) in enumerate(zip(command.writes, prefixes, written, strict=True)):
            specs = _specs_written(self._document, command.program)[index]
            own = [spec for spec, keeper in zip(specs, form.keepers, strict=True) if keeper == self._number]
            results = self._results(files, prefix, own, outputs)
            leaves |= {f"{index}.{name}": hashed for name, hashed in _write(Path(path), own, results).items()}
        return leaves

    @property
    def _document(self) -> JobDocument:
        return self._job.document

    def _end(self, program: str) -> tuple[End, Member | None]:
        if program not in self._made:
            end, member = end_of(self._document, program, self._machines, self._machine), None
            if end.plan is not None and self._number in end.plan.used:
                member = Member(end.plan, self._number, self._document.seed, self._backend)
            self._made[program] = end, member
        return self._made[program]

    def _files(self, command: Hash | Make) -> list[_File]:
        """Return the files that a command names."""
        document = self._document
        forms = self._end(command.program)[0].form.reads
        first, second = document.global_tensors, document.local_tensors
        specs = [first, first, second] if command.program == CLOSE else [first, self._job.update_tensors]
        files = []
        for index, path in enumerate(command.reads):
            # The last file of ``outer`` stands for all updates.
            own, form = specs[min(index, len(specs) - 1)], forms[min(index, len(specs) - 1)]
            needed = form.names(own, self._number)
            kept = [spec.name for spec, keeper in zip(own, form.keepers, strict=True) if keeper == self._number]
            there = [spec for spec in own if spec.name in needed] if command.is_cut else own
            files.append(_File(Path(path), there, frozenset(kept)))
        return files

    def _run(self, program: str, files: Sequence[_File]) -> dict[str, Array]:
        """Run this machine's part of a program. Return its outputs in canonical form."""
        _, member = self._end(program)
        if member is None:
            return {}
        before, _ = prefixes_of(self._document, program)
        inputs: dict[str, Array] = {}
        if program == OUTER:
            opening, *updates = files
            inputs |= self._combined(member, updates)
            files = [opening]
        for file, prefix in zip(files, before, strict=False):
            names = {name.removeprefix(prefix) for name in member.inputs if name.startswith(prefix)}
            inputs |= {prefix + name: array for name, array in file.read(names)}
        moves = member.run(inputs)
        del inputs
        outputs = self._drive(moves)
        return {name: canonical_array(outputs.pop(name), name) for name in sorted(outputs)}

    def _combined(self, member: Member, updates: Sequence[_File]) -> dict[str, Array]:
        """Return the inputs of ``outer`` that are made of the updates of all slots."""
        (_, prefix), _ = prefixes_of(self._document, OUTER)
        names = {name.removeprefix(prefix) for name in member.inputs if name.startswith(prefix)}
        specs = [spec for spec in self._job.update_tensors if spec.name in names]
        each = (dict(file.read(names)) for file in updates)
        return codec_of(self._document).combine(specs, self._document.slots, each)

    def _results(
        self, files: Sequence[_File], prefix: str, own: Sequence[TensorSpec], outputs: dict[str, Array]
    ) -> Iterator[Array]:
        """Yield the results for some tensors of a file, in the order of the file."""
        names = [spec.name for spec in sorted(own, key=lambda spec: spec.name.encode())]
        alone = codec_of(self._document).encode_tensor
        if prefix == f"{UPDATE}." and alone is not None:
            opening, end, _ = files
            for (name, before), (_, after) in zip(opening.read(names), end.read(names), strict=True):
                yield alone(before, after, name)
            return
        # The state before the program is the first file of ``outer``, and the last one of ``close``.
        unchanged = (files[0] if prefix == GLOBAL else files[-1]).read([n for n in names if prefix + n not in outputs])
        for name in names:
            yield outputs.pop(prefix + name) if prefix + name in outputs else next(unchanged)[1]


def _specs_written(document: JobDocument, program: str) -> tuple[Sequence[TensorSpec], ...]:
    if program == OUTER:
        return (document.global_tensors,)
    return kind_of(document).tensors(document), document.local_tensors


def _write(path: Path, own: Sequence[TensorSpec], results: Iterator[Array]) -> dict[str, bytes]:
    """Write tensors as a state of their own, and return their hashes. No more than one of them is in memory."""
    leaves = {}
    with path.open("xb") as file:
        file.write(header_chunk(own))
        for spec, array in zip(sorted(own, key=lambda spec: spec.name.encode()), results, strict=True):
            leaves[spec.name] = b"".join(tensor_leaves(array, spec.name))
            file.writelines(raw_bytes(canonical_array(part, spec.name)) for part in parts_of(array, spec.name))
    return leaves
