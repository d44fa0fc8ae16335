"""Mutants of host."""

from tests.mutants.mutant import Mutant
from tests.mutants.tests import WORKER

_TAKEN_OVER = (
    "tests/unit/compute_provider/work/test_taken_over.py::test_a_worker_that_is_taken_over_reaches_nothing[numpy]"
)

MUTANTS = (
    Mutant(
        "link-of-a-worker",
        "a worker has the daemon show any file of its owner",
        "host/files.py",
        "if not stat.S_ISREG(mode):",
        "if not mode:",
        ("tests/unit/host/test_files.py", WORKER),
    ),
    Mutant(
        "number-of-the-dead",
        "a process with the number of a daemon that was killed is taken for it",
        "host/lock.py",
        "return 0 if _lock(file, fcntl.LOCK_SH) else int(file.read())",
        "return int(file.read())",
        ("tests/unit/host/test_lock.py",),
    ),
    Mutant(
        "two-in-one-home",
        "two daemons of one validator run in one home",
        "host/lock.py",
        "while (file := _claim(path)) is None:",
        "while (file := _claim(path) or path.open('a+')) is None:",
        ("tests/unit/host/test_lock.py",),
    ),
    Mutant(
        "trial-unbounded",
        "what a trial takes is bounded by the machine alone",
        "host/sandbox.py",
        "resource.setrlimit(resource.RLIMIT_DATA, (min(bounds), hard))",
        "resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))",
        ("tests/unit/host/test_sandbox.py::test_a_part_of_a_process_may_have_less_memory",),
    ),
    Mutant(
        "worker-reads",
        "a worker may read every file of its owner",
        "host/landlock.py",
        "_FIRST: Final = (1 << 13) - 1",
        "_FIRST: Final = ((1 << 13) - 1) & ~(_READ_FILE | _READ_FOLDER)",
        (_TAKEN_OVER,),
    ),
    Mutant(
        "worker-reads-beside-modules",
        "a worker may read everything in a folder of modules, perhaps its owner's home",
        "host/sandbox.py",
        "if _is_installed(entry):",
        "if True:",
        ("tests/unit/host/test_sandbox.py::test_modules_are_imported_and_what_lies_beside_them_is_not_read",),
    ),
    Mutant(
        "worker-calls",
        "a worker may make any system call",
        "host/sandbox.py",
        "if problem := call_filter.install(libc, device=device != CPU):",
        'if problem := "":',
        (_TAKEN_OVER,),
    ),
    Mutant(
        "worker-clones",
        "a worker may start processes",
        "host/call_filter.py",
        "_Condition(0, (0x0001_0000,), 0x7E02_0000 | 0x0001_0000)",
        "_Condition(0, (0x0001_0000, 0), 0x7E02_0000 | 0x0001_0000)",
        (_TAKEN_OVER,),
    ),
    Mutant(
        "foreign-json-tokens",
        "other JSON of strangers is parsed, however many values there are",
        "host/foreign_json.py",
        "if tokens > limit else",
        "if tokens > limit + len(data) else",
        ("tests/unit/host/test_foreign_json.py::test_too_many_tokens_are_refused_at_once",),
    ),
    Mutant(
        "console-writes-records",
        "a console may write the records of a daemon",
        "host/records.py",
        "?mode={'ro' if read_only else 'rwc'}",
        "?mode=rwc",
        ("tests/unit/host/test_records.py",),
    ),
    Mutant(
        "evidence-key-twice",
        "a file has a key twice",
        "host/foreign_json.py",
        "    if len(value) != len(pairs):\n",
        "    if len(value) > len(pairs):\n",
        ("tests/unit/validator/credentials/test_files.py::test_another_file_is_refused_with_the_field",),
    ),
)
