"""The same rows with oneTBB, OpenMP and Rayon, by programs of our own.

``available(directory)`` builds what can be built here, ``missing(directory)``
says why the others cannot be, ``versions(directory)`` what was measured:

    with tempfile.TemporaryDirectory() as scratch:
        directory = pathlib.Path(scratch)
        for name, peer in peers.available(directory).items():
            rows = peer("join", 5)

Each program takes a row's name and, if the default will not do, the number of
rounds, and prints one JSON object per line: what, threads, ns, ns_median and
ns_all, the nanoseconds of each round.  ns is the least of them.  Forked and plain
runs are timed in turn, after one round that warms up; plain_ns is the least of
the plain ones, by the same compiler.  The rows:

- join: a join of two empty leaves in a full binary tree of depth 20, over the two
  plain calls (through a function pointer), in pools of 1 and 2 threads.  ns is
  the difference of total_ns and plain_ns, the least of each.
- fib: all of fib(35), with a fork in each call with n >= 2; 2 threads.
- treesum: one node of a tree of 10^7 nodes in one array in preorder, halved at
  each level; a fork at each node with two children; 1 and 2 threads.
- treesum_small: all of such a sum of 1,000 nodes, 8 threads, from a thread outside;
  a round is the median of 2,000.
- latency: one job from outside into a pool of 2 that has slept for 20 ms, until the
  caller, polling, sees its flag; latency_blocked: until the caller, asleep, was
  woken.  A round is the median of 200 jobs.  OpenMP has no such thing: no rows.
- warm, warm_blocked: the same, back to back.
- parallel_for: a loop of 1,000 iterations of about 0.7 microseconds (``steps``
  dependent operations, calibrated), 2 threads, from a thread outside; a round is
  the median of 200 loops, back to back.  ideal_ns is half of the serial loop.
- spawn: one of 10^6 empty tasks spawned by one thread of a pool of 2 and waited for.
- version: what was built.

``libraries(directory)`` builds their sorts instead, as shared libraries: see sorts.h.
"""

from __future__ import annotations

import concurrent.futures
import functools
import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
CRATES = pathlib.Path("/usr/share/cargo/registry")  # where Debian puts its crates
SETTINGS = ("OMP_", "GOMP_", "KMP_", "RAYON_", "TBB_", "RUSTFLAGS")

Row = dict[str, Any]
Peer = Callable[[str, int], list[Row]]


class Missing(Exception):
    """Why a program cannot be built here."""


class Built(NamedTuple):
    programs: dict[str, pathlib.Path]
    missing: dict[str, str]


def available(directory: pathlib.Path) -> dict[str, Peer]:
    """The peers that can be built in ``directory``, as functions of the row
    wanted and the number of rounds."""
    programs = _built(directory).programs
    return {name: functools.partial(_rows, program) for name, program in programs.items()}


def missing(directory: pathlib.Path) -> dict[str, str]:
    """The others, and why not."""
    return dict(_built(directory).missing)


def versions(directory: pathlib.Path) -> dict[str, str]:
    """What the peers that were built are, say "oneTBB 2021.8"."""
    return {
        name: str(peer("version", 1)[0]["version"]) for name, peer in available(directory).items()
    }


@functools.cache
def _built(directory: pathlib.Path) -> Built:
    return _build(directory, {"tbb": _tbb, "openmp": _openmp, "rayon": _rayon})


def libraries(directory: pathlib.Path) -> Built:
    """The sorts of sorts.h, as shared libraries in ``directory``."""
    builders = {"TBB": _tbb_sort, "GNU parallel": _gnu_sort, "Rayon": _rayon_sort}
    return _build(directory, builders)


def _build(
    directory: pathlib.Path, builders: Mapping[str, Callable[[pathlib.Path], pathlib.Path]]
) -> Built:
    built = Built({}, {})
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = {name: pool.submit(build, directory) for name, build in builders.items()}
    for name, path in running.items():
        try:
            built.programs[name] = path.result()
        except Missing as reason:
            built.missing[name] = str(reason)
    return built


def _tbb(directory: pathlib.Path) -> pathlib.Path:
    program = directory / "tbb-peer"
    compiler = _found("g++", os.environ["PATH"])
    source = str(HERE / "tbb.cpp")
    command = [compiler, "-O3", "-std=c++17", source, "-o", str(program), "-ltbb", "-pthread"]
    _run(command, directory, {}, "Debian: libtbb-dev")
    return program


def _openmp(directory: pathlib.Path) -> pathlib.Path:
    program = directory / "openmp-peer"
    compiler = _found("gcc", os.environ["PATH"])
    source = str(HERE / "openmp.c")
    _run(
        [compiler, "-O3", "-fopenmp", source, "-o", str(program)], directory, {}, "it needs OpenMP"
    )
    return program


def _tbb_sort(directory: pathlib.Path) -> pathlib.Path:
    return _sort(directory, "tbb_sort", "-ltbb", hint="Debian: libtbb-dev")


def _gnu_sort(directory: pathlib.Path) -> pathlib.Path:
    return _sort(directory, "gnu_sort", "-fopenmp", hint="it needs OpenMP")


def _sort(directory: pathlib.Path, name: str, option: str, *, hint: str) -> pathlib.Path:
    library = directory / f"{name}.so"
    compiler = _found("g++", os.environ["PATH"])
    command = [compiler, "-O3", "-std=c++17", "-shared", "-fPIC", str(HERE / f"{name}.cpp")]
    _run([*command, "-o", str(library), option], directory, {}, hint)
    return library


def _rayon(directory: pathlib.Path) -> pathlib.Path:
    program = directory / "rayon-peer"
    for target, options in (
        (program, []),
        (_alone(program, "join"), ["--features", "join-alone"]),
    ):
        shutil.copy(_crate(directory, "rayon", *options) / "rayon-peer", target)
    return program


def _rayon_sort(directory: pathlib.Path) -> pathlib.Path:
    return _crate(directory, "rayon_sort") / "librayon_sort.so"


def _crate(directory: pathlib.Path, name: str, *options: str) -> pathlib.Path:
    """Where cargo puts what it builds, with Debian's crates: nothing is downloaded."""
    cargo = _found("cargo", f"{pathlib.Path.home()}/.cargo/bin:{os.environ['PATH']}")
    crates = sorted(CRATES.glob("rayon-[0-9]*"))
    if not crates:
        raise Missing(f"there is no rayon in {CRATES} (Debian: librust-rayon-dev)")
    source = directory / name
    ignored = shutil.ignore_patterns("target", "Cargo.lock")
    shutil.copytree(HERE / name, source, ignore=ignored, dirs_exist_ok=True)
    sources = {"crates-io.replace-with": "debian", "debian.directory": str(CRATES)}
    command = [cargo, "build", "--release", "--offline", "--quiet"]
    for key, value in sources.items():
        command += ["--config", f'source.{key}="{value}"']
    settings = {
        "CARGO_TARGET_DIR": str(source / "target"),
        "PEER_RAYON": crates[-1].name.replace("rayon-", "Rayon "),
    }
    _run([*command, *options], source, settings, "Debian: librust-rayon-dev")
    return source / "target" / "release"


def _alone(program: pathlib.Path, what: str) -> pathlib.Path:
    """The program that has this row only, if there is one."""
    return program.with_name(f"{program.name}-{what}")


def _found(tool: str, path: str) -> str:
    found = shutil.which(tool, path=path)
    if found is None:
        raise Missing(f"there is no {tool}")
    return found


def _environment() -> dict[str, str]:
    """Without what changes the peers' defaults."""
    return {key: value for key, value in os.environ.items() if not key.startswith(SETTINGS)}


def _run(
    command: Sequence[str], where: pathlib.Path, settings: Mapping[str, str], hint: str
) -> None:
    done = subprocess.run(
        command,
        cwd=where,
        env={**_environment(), **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        lines = done.stdout.strip().splitlines() or [f"exit code {done.returncode}"]
        telling = [line for line in lines if "error" in line or "cannot find" in line] or lines
        raise Missing(f"{pathlib.Path(command[0]).name} failed: {telling[0].strip()} ({hint})")


def _rows(program: pathlib.Path, what: str, rounds: int) -> list[Row]:
    alone = _alone(program, what)
    done = subprocess.run(
        [alone if alone.exists() else program, what, str(rounds)],
        env=_environment(),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]
