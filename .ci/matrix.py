"""python .ci/matrix.py [NAME ...]: builds and tests pyblitz in every way that it is to work.

Each cell is a clone of this commit with an environment of its own, in $MATRIX_DIR (a temporary
directory otherwise).  The tests of the runtime, of pools and of arrays run in each; which cells
passed is printed, and written to benchmarks/results/matrix.jsonl.  With NAMEs only those are
run, and replaced there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = [
    "tests/runtime",
    "tests/test_capi.py",
    "tests/test_threadpool.py",
    "tests/test_cancel.py",
    "tests/test_stats.py",
    "tests/stress",
    "tests/test_map.py",
    "tests/test_reduce.py",
    "tests/test_sort.py",
    "tests/test_argsort.py",
    "tests/test_less.py",
    "tests/test_merge.py",
    "tests/test_order.py",
    "tests/test_partition.py",
    "tests/test_unique.py",
    "tests/test_isin.py",
]
# Crowds of threads take minutes, and are no different here.
NOT = "256 or 1000"
# What their threads, memory and own processes do not allow.
NOT_UNDER = {
    "thread": "ctrl_c or python or fork or refused or child or RLIMIT or memory or cannot_start",
    "address": "refused or RLIMIT or memory or cannot_start",
}


@dataclass(frozen=True)
class Cell:
    name: str
    python: str
    numpy: str = "numpy"
    build: str = ""  # PYBLITZ_BUILD
    flags: str = ""  # PYBLITZ_CFLAGS
    compiler: str = ""
    cython: str = "cython"


def pythons() -> dict[str, str]:
    """Every CPython from 3.10 on this machine, and the free-threaded one if it is built."""
    found = {}
    places = [Path(p) for p in os.environ.get("PATH", "").split(os.pathsep)]
    places += sorted(Path.home().glob(".pyenv/versions/3.*/bin"))
    for place in places:
        for minor in range(10, 20):
            program = place / f"python3.{minor}"
            if f"3.{minor}" not in found and program.exists() and works(program):
                found[f"3.{minor}"] = str(program)
    for place in (
        os.environ.get("FREETHREADED", ""),
        "~/.cache/pyblitz/python3.13t/bin/python3.13t",
    ):
        program = Path(place).expanduser()
        if place and program.exists():
            found["3.13t"] = str(program)
    return found


def works(program: Path) -> bool:
    done = subprocess.run([program, "-c", "import venv, ssl"], capture_output=True, check=False)
    return done.returncode == 0


def cells() -> list[Cell]:
    found = pythons()
    rows = [Cell(f"python{version}", program) for version, program in found.items()]
    main = found.get("3.11") or next(iter(found.values()))
    rows += [
        Cell("numpy2.0", main, numpy="numpy==2.0.*"),
        Cell("O0", main, flags="-O0"),
        Cell("debug", main, build="debug"),
        Cell("thread", main, build="thread"),
        Cell("address", main, build="address"),
        Cell("undefined", main, build="undefined"),
    ]
    if shutil.which("clang"):
        rows.append(Cell("clang", main, compiler="clang"))
    return rows


def run(cell: Cell, place: Path) -> str:
    """What went wrong, or the last line that pytest printed."""
    here = place / cell.name
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir(parents=True)
    env = dict(os.environ, PYBLITZ_BUILD=cell.build, PYBLITZ_CFLAGS=cell.flags)
    if cell.compiler:
        env |= {"CC": cell.compiler, "LDSHARED": f"{cell.compiler} -shared"}
    python = str(here / ".venv" / "bin" / "python")
    source = here / "pyblitz"
    # 3.13t: the last NumPy that has wheels for it.
    numpy = "numpy<2.5" if cell.name == "python3.13t" else cell.numpy
    commands = [
        ["git", "clone", "--quiet", str(ROOT), str(source)],
        [cell.python, "-m", "venv", str(here / ".venv")],
        [python, "-m", "pip", "install", "-q", "--prefer-binary", numpy, cell.cython,
         "setuptools>=77", "pytest", "hypothesis"],
        [python, "setup.py", "-q", "build_ext", "--inplace"],
    ]  # fmt: skip
    for i, command in enumerate(commands):
        done = subprocess.run(
            command, cwd=source if i == 3 else here, env=env, capture_output=True, text=True
        )
        (here / f"{i}.log").write_text(done.stdout + done.stderr)
        if done.returncode != 0:
            return f"FAILED: {' '.join(command[:4])}: {here}/{i}.log"
    if "warning:" in (here / "3.log").read_text():
        return f"FAILED: a warning of the compiler: {here}/3.log"
    env["PYTHONPATH"] = str(source)
    if cell.build in ("thread", "address"):
        library = subprocess.check_output(
            ["gcc", f"-print-file-name=lib{cell.build[0]}san.so"], text=True
        ).strip()
        env["LD_PRELOAD"] = library
        env["TSAN_OPTIONS"] = env["ASAN_OPTIONS"] = (
            f"exitcode=0:detect_leaks=0:log_path={here}/report"
        )
    env["UBSAN_OPTIONS"] = f"print_stacktrace=1:log_path={here}/report"
    unwanted = " or ".join([NOT, *([NOT_UNDER[cell.build]] if cell.build in NOT_UNDER else [])])
    command = [python, "-m", "pytest", "-q", *TESTS, "-k", f"not ({unwanted})"]
    done = subprocess.run(command, cwd=source, env=env, capture_output=True, text=True)
    (here / "tests.log").write_text(done.stdout + done.stderr)
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else "no output"
    reports = list(here.glob("report*"))
    if reports:
        return f"FAILED: {len(reports)} reports: {reports[0]}"
    return last if done.returncode == 0 else f"FAILED: {last}: {here}/tests.log"


def main(names: list[str]) -> int:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import machine

    file = machine.RESULTS / "matrix.jsonl"
    kept = [json.loads(line) for line in file.read_text().splitlines()[1:]] if file.exists() else []
    rows = {row["what"]: row for row in kept if names}
    place = Path(os.environ.get("MATRIX_DIR") or tempfile.mkdtemp(prefix="pyblitz-matrix-"))
    commit = machine.git_commit()
    failed = 0
    for cell in cells():
        if names and cell.name not in names:
            continue
        began = time.perf_counter()
        said = run(cell, place)
        print(f"{cell.name:12} {time.perf_counter() - began:6.0f} s  {said}", flush=True)
        passed = not said.startswith("FAILED")
        failed += not passed
        rows[cell.name] = {"what": cell.name, "passed": passed, "said": said, "commit": commit}
        machine.write(file, rows.values(), machine.facts())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
