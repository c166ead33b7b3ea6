"""What the benchmarks of the library and of the sorts share: the contestants and their
modules, the measuring of a row in turn, its goals, and how it is printed.

Import it before NumPy and the others: it tells them how many threads they have.
"""

from __future__ import annotations

import os

THREADS = 2
for _variable in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "POLARS_MAX_THREADS",
):
    os.environ[_variable] = str(THREADS)

import argparse  # noqa: E402
import contextlib  # noqa: E402
import importlib  # noqa: E402
import itertools  # noqa: E402
import json  # noqa: E402
import math  # noqa: E402
import operator  # noqa: E402
import pathlib  # noqa: E402
import statistics  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Iterable, Iterator, Mapping  # noqa: E402
from functools import cached_property, partial  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import machine  # noqa: E402


def optional(name: str) -> Any:
    """The module, or None."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


Row = dict[str, Any]
Contest = Mapping[str, Callable[[], Any]]
Goal = dict[str, Any]

# Looked at by name: what it does not have yet is a row that says so.
pb: Any = importlib.import_module("pyblitz")

PYBLITZ, ONE, NUMPY, LOOP = "pyblitz", "pyblitz, 1 thread", "NumPy", "C loop"
NUMEXPR, NUMBA, TORCH, DASK = "numexpr", "Numba", "torch", "dask"
POLARS, STREAM = "Polars", "Polars, streaming"
ARROW, PANDAS = "pyarrow", "pandas"
BITS = "Polars, bits"  # its booleans as they are
NOT_PEERS = (PYBLITZ, ONE, LOOP, BITS)
AT_MOST = ("MiB", "ns over NumPy", "of the full scan")

PAUSE = 0.005  # seconds at least between two contestants
BLOCK = 0.01  # seconds of one turn at least, by repeated calls
SMALL_BLOCK = 0.002
ADDED = 1500  # nanoseconds that a small call may take more than NumPy's


class Effort:
    """How long it may take."""

    def __init__(self, quick: bool) -> None:
        self.quick = quick
        self.seconds = 0.15 if quick else 3.0  # of a row
        self.least, self.most = (3, 5) if quick else (5, 25)  # rounds of a row


# ---- the peers --------------------------------------------------------------


class Peers:
    """The modules, or None for each that is not installed: loaded when first asked for, so
    that a part in a process of its own loads what it uses."""

    @cached_property
    def numexpr(self) -> Any:
        found = optional("numexpr")
        if found is not None:
            found.set_num_threads(THREADS)
        return found

    @cached_property
    def loops(self) -> Any:
        return optional("peers.numba_loops") if optional("numba") is not None else None

    @cached_property
    def torch(self) -> Any:
        found = optional("torch")
        if found is not None:
            found.set_num_threads(THREADS)
        return found

    @cached_property
    def polars(self) -> Any:
        return optional("polars")

    @cached_property
    def dask(self) -> Any:
        found = optional("dask.array")
        if found is not None:
            importlib.import_module("dask").config.set(scheduler="threads", num_workers=THREADS)
        return found

    @cached_property
    def arrow(self) -> Any:
        found = optional("pyarrow")
        if found is not None:
            found.set_cpu_count(THREADS)
        return found

    @cached_property
    def compute(self) -> Any:
        return optional("pyarrow.compute")

    @cached_property
    def pandas(self) -> Any:
        return optional("pandas")

    def has(self, name: str) -> bool:
        module = {
            NUMEXPR: "numexpr",
            NUMBA: "loops",
            TORCH: "torch",
            POLARS: "polars",
            STREAM: "polars",
            BITS: "polars",
            DASK: "dask",
            ARROW: "arrow",
            PANDAS: "pandas",
        }.get(name)
        return module is None or getattr(self, module) is not None

    def versions(self, names: Iterable[str]) -> dict[str, str]:
        return {name: machine.version_of(name) or "not installed" for name in names}


peers = Peers()


class Data:
    """An array, and the same as each peer wants it."""

    def __init__(self, array: Any) -> None:
        self.np = array

    @cached_property
    def torch(self) -> Any:
        return peers.torch.from_numpy(self.np)

    @cached_property
    def polars(self) -> Any:
        return peers.polars.Series("a", self.np)

    @cached_property
    def arrow(self) -> Any:
        return peers.arrow.array(self.np)

    @cached_property
    def pandas(self) -> Any:
        return peers.pandas.Series(self.np)

    @cached_property
    def frame(self) -> Any:
        return peers.polars.DataFrame([self.polars]).lazy()

    @cached_property
    def dask(self) -> Any:
        """Two chunks for each thread."""
        return peers.dask.from_array(self.np, chunks=math.ceil(self.np.size / (2 * THREADS)))


def entrants(table: Mapping[str, Callable[..., Any]], *data: Any) -> dict[str, Callable[[], Any]]:
    """Who is here, with its function of the data."""
    return {name: partial(fn, *data) for name, fn in table.items() if peers.has(name)}


# ---- measuring --------------------------------------------------------------


def again(fn: Callable[[], Any], times: int) -> None:
    for _ in itertools.repeat(None, times):
        fn()


def timed(fn: Callable[[], Any]) -> float:
    start = time.perf_counter()
    fn()
    return time.perf_counter() - start


def problem(result: Any, expected: Any, rtol: float) -> str | None:
    """What is wrong with the result, or None."""
    got, wanted = np.asarray(result), np.asarray(expected)
    if got.size != wanted.size:
        return f"wrong: {got.size} values for {wanted.size}"
    if not np.allclose(got.reshape(wanted.shape), wanted, rtol=rtol, atol=1e-12):
        return "wrong: values differ from NumPy's"
    return None


class Measured:
    def __init__(self) -> None:
        self.median: dict[str, float] = {}
        self.least: dict[str, float] = {}
        self.notes: dict[str, str] = {}
        self.once: list[str] = []
        self.runs = 0


def measure(
    contest: Contest,
    effort: Effort,
    *,
    one: Any = None,
    rtol: float = 1e-9,
    read: Callable[[Any], Any] = np.array,
    agree: Callable[[Any, Any], str | None] | None = None,
    once: float = math.inf,
    slow_rounds: int = 3,
    block: float = BLOCK,
    pause: float = PAUSE,
    most: int | None = None,
    unchecked: tuple[str, ...] = (LOOP,),
) -> Measured:
    """Nanoseconds of a call of each.  ``one``: a pool of one thread, in which pyblitz takes
    part once more.  A contestant that raises, or whose result is not that of the first but
    pyblitz, has a note instead of a time.  ``read`` makes of a result what ``agree`` compares.
    ``once``: a peer whose first run takes so many seconds (NumPy: four times as
    many) has no other."""
    found = Measured()
    agree = agree or partial(problem, rtol=rtol)
    # pyblitz is looked at last, for NumPy's result to be there.
    order = sorted(contest, key=lambda name: name == PYBLITZ)
    first: list[Any] = []
    turns: dict[str, Callable[[], Any]] = {}
    times: dict[str, int] = {}
    cost = 0.0
    for name in order:
        fn = contest[name]
        try:
            start = time.perf_counter()
            result = fn()
            took = time.perf_counter() - start
            if name not in unchecked:
                values = read(result)
                wrong = agree(values, first[0]) if first else None
                first = first or [values]
                del values
                if wrong is not None:
                    found.notes[name] = wrong
                    continue
            del result
            # NumPy's is what most goals are about.
            if name != PYBLITZ and took >= once * (4 if name == NUMPY else 1):
                found.once.append(name)
                found.median[name] = found.least[name] = 1e9 * took
                continue
            # The first run of all may have had something to load, or to compile.
            seconds = [took if once < math.inf and took > 0.2 else timed(fn)]
            if seconds[0] < (0.5 if once == math.inf else 0.2):
                seconds.append(timed(fn))
        except Exception as error:
            found.notes[name] = f"{type(error).__name__}: {error}".split("\n")[0][:200]
            continue
        times[name] = max(1, min(10**4, math.ceil(block / max(min(seconds), 1e-7))))
        turns[name] = partial(again, fn, times[name])
        cost += max(min(seconds), block) + pause
    if one is not None and PYBLITZ in turns:
        times[ONE] = max(1, math.ceil(times[PYBLITZ] / THREADS))
        turns[ONE] = partial(one.install, again, contest[PYBLITZ], times[ONE])
        cost += block + pause
    if not turns:
        return found
    slow = cost > effort.seconds
    found.runs = (
        slow_rounds
        if slow
        else max(effort.least, min(most or effort.most, int(effort.seconds / cost)))
    )
    # As they were given: pyblitz's neighbours are chosen there.
    turns = {name: turns[name] for name in (*contest, ONE) if name in turns}
    seconds_of = machine.interleave(turns, found.runs, warmup=0 if slow else 1, pause=pause)
    for name, values in seconds_of.items():
        found.median[name] = 1e9 * statistics.median(values) / times[name]
        found.least[name] = 1e9 * min(values) / times[name]
    return found


def goal(text: str, value: float | None, limit: float, *, at_most: bool = False) -> Goal:
    """``value`` is None when it could not be measured: not met."""
    compare = operator.le if at_most else operator.ge
    return {
        "goal": text,
        "value": None if value is None else round(value, 4),
        "limit": limit,
        "met": value is not None and bool(compare(value, limit)),
    }


def over(found: Measured, other: str | None, who: str = PYBLITZ) -> float | None:
    """The time of the other over that of ``who``."""
    if other not in found.median or who not in found.median:
        return None
    return found.median[other] / found.median[who]


def best_peer(found: Measured) -> str | None:
    rivals = [name for name in found.median if name not in NOT_PEERS]
    return min(rivals, key=lambda name: found.median[name], default=None)


def lacks(note: str) -> bool:
    """Whether the exception says that there is no such function, or option."""
    return (note.startswith("AttributeError") and "has no attribute" in note) or (
        note.startswith("TypeError") and "unexpected keyword argument" in note
    )


def row(
    what: str, name: str, n: int, dtype: str, found: Measured, goals: list[Goal], **more: Any
) -> Row:
    peer = best_peer(found)
    ratios = {"numpy": over(found, NUMPY), "peer": over(found, peer)}
    made: Row = {
        "what": what,
        "name": name,
        "n": n,
        "dtype": dtype,
        "ns": {k: round(v, 1) for k, v in found.median.items()},
        "ns_min": {k: round(v, 1) for k, v in found.least.items()},
        "ratio_numpy": ratios["numpy"] and round(ratios["numpy"], 3),
        "ratio_peer": ratios["peer"] and round(ratios["peer"], 3),
        "best_peer": peer,
        "goals": goals,
        "met": all(g["met"] for g in goals),
        "runs": found.runs,
        **more,
    }
    if found.once:
        made["once"] = found.once
    notes = dict(found.notes)
    if PYBLITZ in notes:
        note = notes.pop(PYBLITZ)
        made["missing" if lacks(note) else "failed"] = note
    if notes:
        made["notes"] = notes
    return made


def small_row(
    name: str,
    n: int,
    dtype: str,
    ours: Callable[[], Any],
    numpys: Callable[[], Any],
    effort: Effort,
) -> Row:
    """What pyblitz adds to NumPy's time."""
    found = measure(
        {PYBLITZ: ours, NUMPY: numpys},
        effort,
        block=SMALL_BLOCK,
        pause=0.0,
        most=80,
        # They are compared in the tests, and some have no namesake.
        unchecked=(PYBLITZ, NUMPY),
    )
    added = None
    if PYBLITZ in found.median:
        added = found.median[PYBLITZ] - found.median[NUMPY]
    goals = [goal("ns over NumPy", added, ADDED, at_most=True)]
    more = {} if added is None else {"over_ns": round(added, 1)}
    return row("small", name, n, dtype, found, goals, **more)


# ---- processes of their own


def child(script: str, *options: str, environment: Mapping[str, str] | None = None) -> list[Row]:
    """The rows that the script of this directory prints with these options."""
    package = str(pathlib.Path(pb.__file__).resolve().parent.parent)
    path = os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(HERE / script), *options],
        env={**os.environ, "PYTHONPATH": path, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def resident(field: str) -> int:
    """Bytes: VmRSS, or VmHWM, its peak."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def extra(fn: Callable[[], Any]) -> tuple[Any, int]:
    """The result, and the peak of the memory during the call over what it was before."""
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # forgets the peak until now
    before = resident("VmRSS")
    result = fn()
    return result, resident("VmHWM") - before


# ---- printing


def us(ns: float | None) -> str:
    return "-" if ns is None else f"{ns / 1e3:,.2f}"


def line(r: Row) -> str:
    goals = "; ".join(
        f"{g['goal']} {'-' if g['value'] is None else format(g['value'], '.4g')}"
        f" ({'<=' if g['goal'] in AT_MOST else '>='}"
        f" {g['limit']:g})"
        for g in r["goals"]
    )
    size = f"{r['n']:.0e}".replace("e+0", "e").replace("e+", "e")
    head = f"{r['what']:11}{r['name'][:32]:33}{size:>6} {r['dtype']:11}"
    state = "missing" if "missing" in r else "FAILED" if "failed" in r else ""
    state = state or ("" if not r["goals"] else "met" if r["met"] else "NOT MET")
    times = ""
    if "ns" in r:
        numpys, peer = r["ns"].get(NUMPY), r.get("best_peer")
        best = f"{us(r['ns'].get(peer))} {peer}" if peer else ""
        times = f"{us(r['ns'].get(PYBLITZ)):>12}{us(numpys):>13}  {best:36}"
    said = "".join(
        f"\n{'':11}{key}: {r[key]}" for key in ("missing", "failed", "unavailable") if key in r
    )
    said += "".join(f"\n{'':11}{who}: {note}" for who, note in r.get("notes", {}).items())
    return f"{head}{times:63}{state:8} {goals}{said}"


def head() -> str:
    return f"{'':62}{'pyblitz us':>12}{'NumPy us':>13}  {'best peer us':36}"


def parser_of(description: str, parts: Iterable[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="small arrays, few runs")
    parser.add_argument("--only", action="append", choices=list(parts), metavar="NAME")
    parser.add_argument("--output", type=pathlib.Path)
    return parser


def run(
    name: str,
    parts: Mapping[str, Callable[[Any], Iterator[Row]]],
    effort: Effort,
    versions: Mapping[str, str],
    args: argparse.Namespace,
) -> None:
    """Prints the rows of the parts, and writes them where they belong."""
    facts = {**machine.facts(), "threads": THREADS, "peers": dict(versions)}
    output = args.output
    if output is None and not args.quick and not args.only:
        output = machine.results_here(name)
    rows: list[Row] = []
    print(head())
    for part in args.only or parts:
        for made in parts[part](effort):
            rows.append(made)
            print(line(made), flush=True)
    if output is not None:
        machine.write(output, rows, facts)
    said = [r for r in rows if r["goals"]]
    absent = [who for who, version in versions.items() if version.startswith("not ")]
    print(f"{sum(r['met'] for r in said)} of {len(said)} rows met their goals", end="")
    print(f"; not installed: {', '.join(absent)}" if absent else "")
