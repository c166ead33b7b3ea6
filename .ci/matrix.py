"""python .ci/matrix.py [-j N] [NAME ...]: builds and tests pyblitz in every way that it is to work.

Each cell is a clone of this commit with an environment of its own, in $MATRIX_DIR (a temporary
directory otherwise).  The tests of the runtime, of pools and of arrays run in each; which cells
passed is printed, and written to benchmarks/results/matrix.jsonl, which docs/figures.md shows.
With NAMEs only those are run in that order, and replaced there; -j runs N beside each other.  A
Python that this machine has not is made by .ci/python; a cell for which there is none, or no
compiler, is not run, and its row says why.

What the machine needs, beside a compiler and the Pythons of pyenv:

    apt-get install clang dpkg-dev libffi-dev libssl-dev zlib1g-dev
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parent.parent
# Of what builds are made; which NumPy, each cell says.
BUILT_WITH = [
    name
    for name in tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    if not name.startswith("numpy")
]
TESTS = [
    "tests/runtime",
    "tests/test_capi.py",
    "tests/test_first_calls.py",
    "tests/test_threadpool.py",
    "tests/test_executor.py",
    "tests/test_cancel.py",
    "tests/test_tasks.py",
    "tests/test_gil.py",
    "tests/test_failures.py",
    "tests/test_context.py",
    "tests/test_progress.py",
    "tests/test_stats.py",
    "tests/test_writers.py",
    "tests/stress",
    "tests/test_enable.py",
    "tests/test_numpy.py",
    "tests/test_front.py",
    "tests/test_map.py",
    "tests/test_memory.py",
    "tests/test_reduce.py",
    "tests/test_moments.py",
    "tests/test_simd.py",
    "tests/test_sort.py",
    "tests/test_argsort.py",
    "tests/test_less.py",
    "tests/test_merge.py",
    "tests/test_order.py",
    "tests/test_partition.py",
    "tests/test_unique.py",
    "tests/test_isin.py",
    "tests/test_scan.py",
    "tests/test_count.py",
    "tests/test_move.py",
    "tests/test_find.py",
    "tests/test_iter.py",
]
# Crowds of threads take minutes, and are no different here.
NOT = "test_stress and (256 or 1000)"
# Those that look at how much memory there is.
SCARCE = "RLIMIT or of_memory or no_memory or low_memory or without_memory or memory_errors"
SCARCE += " or memory_of_fused or memory_is_bounded"
# What their threads, memory and own processes do not allow.
NOT_UNDER = {
    # It is so slow that a test of progress ends before it is told of any.
    "thread": f"{SCARCE} or ctrl_c or python or fork or refused or child or cannot_start"
    " or few_others or made_once or nothing_leaks or a_crash or not_finished",
    # It keeps what was freed for a while, and a child forked while a thread holds a lock of its
    # allocator waits for that lock for ever (gcc 12).  It reports crashes on purpose, and takes
    # longer to get a gigabyte than tests of progress take.
    "address": f"{SCARCE} or refused or cannot_start or are_freed or few_others"
    " or fork_while or nothing_leaks or a_crash or not_finished or progress and ctrl_c",
}
# glibc frees the thread-local memory of a thread that has ended when its stack is used again.  It
# waits for the kernel's word that the thread is gone, which ThreadSanitizer does not see.
SUPPRESSED = "race:_dl_deallocate_tls"
# At one in so many of the named points a thread gives way, or a compare-and-swap fails.
CHAOS = "20"


@dataclass(frozen=True)
class Cell:
    name: str
    python: str = "3.11"
    numpy: str = "numpy"
    build: str = ""  # PYBLITZ_BUILD
    flags: str = ""  # PYBLITZ_CFLAGS
    chaos: str = ""  # PYBLITZ_CHAOS
    compiler: str = "gcc"


CELLS = [
    Cell("python3.10", "3.10"),
    Cell("python3.11", "3.11"),
    Cell("python3.12", "3.12"),
    Cell("python3.13", "3.13"),
    Cell("python3.14", "3.14"),
    # The last NumPy that has wheels for it.
    Cell("python3.13t", "3.13t", numpy="numpy<2.5"),
    Cell("python3.14t", "3.14t"),
    Cell("numpy2.0", numpy="numpy==2.0.*"),
    Cell("clang", compiler="clang"),
    Cell("O0", flags="-O0"),
    Cell("debug", build="debug"),
    Cell("chaos", build="debug", chaos=CHAOS),
    Cell("thread", build="thread"),
    Cell("address", build="address"),
    Cell("undefined", build="undefined"),
]


class NotHere(Exception):
    """What a cell needs cannot be had on this machine."""


def find_python(version: str) -> str:
    """This machine's, of $PATH or pyenv, or else the one that .ci/python makes."""
    places = [Path(p) for p in os.environ.get("PATH", "").split(os.pathsep)]
    places += sorted(Path.home().glob(f".pyenv/versions/{version}*/bin"))
    for place in places:
        program = place / f"python{version}"
        if program.exists() and works(program):
            return str(program)
    made = subprocess.run([ROOT / ".ci" / "python", version], capture_output=True, text=True)
    if made.returncode != 0:
        reason = (made.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise NotHere(f"no Python {version}: {reason}")
    return made.stdout.strip()


def works(program: Path) -> bool:
    done = subprocess.run([program, "-c", "import venv, ssl"], capture_output=True, check=False)
    return done.returncode == 0


def run(cell: Cell, place: Path) -> dict[str, str]:
    """The versions of Python and NumPy, and under "said" what went wrong, or the last line
    that pytest printed."""
    here = place / cell.name
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir(parents=True)
    if not shutil.which(cell.compiler):
        raise NotHere(f"no {cell.compiler}")
    env = dict(os.environ, PYBLITZ_BUILD=cell.build, PYBLITZ_CFLAGS=cell.flags)
    env.pop("PYTHONPATH", None)
    if cell.compiler != "gcc":
        env |= {"CC": cell.compiler, "LDSHARED": f"{cell.compiler} -shared"}
    python = str(here / ".venv" / "bin" / "python")
    source = here / "pyblitz"
    commands = [
        ["git", "clone", "--quiet", str(ROOT), str(source)],
        [find_python(cell.python), "-m", "venv", str(here / ".venv")],
        [python, "-m", "pip", "install", "-q", "--prefer-binary", cell.numpy, *BUILT_WITH, "pytest",
         "hypothesis"],
        [python, "setup.py", "-q", "build_ext", "--inplace"],
    ]  # fmt: skip
    row: dict[str, str] = {}
    for i, command in enumerate(commands):
        done = subprocess.run(
            command, cwd=source if i == 3 else here, env=env, capture_output=True, text=True
        )
        (here / f"{i}.log").write_text(done.stdout + done.stderr)
        if done.returncode != 0:
            return row | {"said": f"FAILED: {' '.join(command[:4])}: {here}/{i}.log"}
    row["python"], row["numpy"] = subprocess.check_output(
        [python, "-c", "import numpy, sys; print(sys.version.split()[0], numpy.__version__)"],
        text=True,
    ).split()
    if "warning:" in (here / "3.log").read_text():
        return row | {"said": f"FAILED: a warning of the compiler: {here}/3.log"}
    env["PYTHONPATH"] = str(source)
    if cell.build in ("thread", "address"):
        # With libstdc++, whose exceptions it wants to know from the start.
        libraries = [
            subprocess.check_output(["gcc", f"-print-file-name=lib{name}.so"], text=True).strip()
            for name in (f"{cell.build[0]}san", "stdc++")
        ]
        env["LD_PRELOAD"] = " ".join(libraries)
        # What its own threads do between each other no sanitizer sees: it has none.
        env["OPENBLAS_NUM_THREADS"] = "1"
        (here / "suppressed").write_text(SUPPRESSED + "\n")
        options = f"exitcode=0:detect_leaks=0:log_path={here}/report"
        env["ASAN_OPTIONS"] = options
        # A thread of a block that nobody leaves is there at the end: that end is what is tested.
        env["TSAN_OPTIONS"] = f"{options}:report_thread_leaks=0:suppressions={here}/suppressed"
    if cell.chaos:
        env["PYBLITZ_CHAOS"] = cell.chaos
    env["UBSAN_OPTIONS"] = f"print_stacktrace=1:log_path={here}/report"
    unwanted = " or ".join([NOT, *([NOT_UNDER[cell.build]] if cell.build in NOT_UNDER else [])])
    tests = [test for test in TESTS if (source / test).exists()]
    command = [python, "-m", "pytest", "-q", *tests, "-k", f"not ({unwanted})", "--durations=30"]
    if cell.build == "thread":
        # What they do on purpose is what it reports.
        command += ["-m", "not races"]
    done = subprocess.run(command, cwd=source, env=env, capture_output=True, text=True)
    (here / "tests.log").write_text(done.stdout + done.stderr)
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else "no output"
    reports = list(here.glob("report*"))
    if reports:
        last = f"FAILED: {len(reports)} reports: {reports[0]}"
    elif done.returncode != 0:
        last = f"FAILED: {last}: {here}/tests.log"
    return row | {"said": last}


def verdict(cell: Cell, place: Path) -> dict:
    """The cell's row: whether it passed, or None where it cannot be run, and what was said."""
    began = time.perf_counter()
    passed: bool | None = None
    try:
        row = run(cell, place)
        passed = not row["said"].startswith("FAILED")
    except NotHere as e:
        row = {"said": f"not available: {e}"}
    print(f"{cell.name:12} {time.perf_counter() - began:6.0f} s  {row['said']}", flush=True)
    return {"what": cell.name, "passed": passed, **row}


def main() -> int:
    sys.path.append(str(ROOT))
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import machine

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    known = [cell.name for cell in CELLS]
    parser.add_argument("names", nargs="*", choices=[*known, []], metavar="NAME", help=str(known))
    parser.add_argument("-j", type=int, default=1, metavar="N", help="cells beside each other")
    asked = parser.parse_args()

    file = machine.RESULTS / "matrix.jsonl"
    kept = [json.loads(line) for line in file.read_text().splitlines()[1:]] if file.exists() else []
    rows = {row["what"]: row for row in kept if asked.names}
    place = Path(os.environ.get("MATRIX_DIR") or tempfile.mkdtemp(prefix="pyblitz-matrix-"))
    commit = machine.git_commit()
    writing = threading.Lock()

    def one(cell: Cell) -> bool:
        row = verdict(cell, place)
        with writing:
            rows[cell.name] = {**row, "commit": commit}
            machine.write(file, [rows[name] for name in known if name in rows], machine.facts())
        return row["passed"] is not False

    by_name = {cell.name: cell for cell in CELLS}
    cells = [by_name[name] for name in asked.names or known]
    with ThreadPoolExecutor(asked.j) as executor:
        return 0 if all(list(executor.map(one, cells))) else 1


if __name__ == "__main__":
    sys.exit(main())
