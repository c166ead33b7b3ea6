"""``python -m pyblitz`` is the demonstration; with ``--info``, the facts for a bug report; with
``program.py`` or ``-m module``, and its arguments, that program under `pyblitz.enable`.

The demonstration says what machine and how many threads it found, then runs map, reduce and sort
at a few sizes beside NumPy, in turn, checks that the answers agree, and prints
a table of times.  Exits with 1 if any answer differs.
"""

from __future__ import annotations

import os
import platform
import runpy
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import pyblitz as pb
from pyblitz._info import info
from pyblitz.host.config import available_cpus, cgroup_quota

Array = npt.NDArray[Any]
Case = tuple[str, Callable[[], Any], Callable[[], Any], Callable[[Any, Any], bool]]


def same(a: Any, b: Any) -> bool:
    """The same values, dtype and shape."""
    x, y = np.asarray(a), np.asarray(b)
    return x.dtype == y.dtype and x.shape == y.shape and bool((x == y).all())


def close(a: Any, b: Any) -> bool:
    """A floating-point sum may differ from NumPy's in the last bits."""
    return bool(np.isclose(a, b, rtol=1e-13, atol=0))


def cases(n: int, rng: np.random.Generator) -> list[Case]:
    a, b = rng.random(n), rng.random(n)
    out, out2 = np.empty(n), np.empty(n)
    keys = rng.integers(-(2**62), 2**62, n)
    return [
        (
            "par_map(np.exp, a, out=o)",
            lambda: pb.par_map(np.exp, a, out=out),
            lambda: np.exp(a, out=out2),
            same,
        ),
        ("par_map(np.add, a, b)", lambda: pb.par_map(np.add, a, b), lambda: np.add(a, b), same),
        (
            "par_reduce(np.add, a)",
            lambda: pb.par_reduce(np.add, a),
            lambda: np.add.reduce(a),
            close,
        ),
        ("par_sort(float64)", lambda: pb.par_sort(a), lambda: np.sort(a), same),
        ("par_sort(int64)", lambda: pb.par_sort(keys), lambda: np.sort(keys), same),
    ]


def timed(f: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    f()
    return time.perf_counter() - begun


def compare(case: Case, repeat: int) -> tuple[bool, float, float]:
    """Whether the answers agree, and the median seconds of each, run in turn."""
    _, ours, numpys, agree = case
    ok = agree(ours(), numpys())
    mine, theirs = [], []
    for _ in range(repeat):
        mine.append(timed(ours))
        theirs.append(timed(numpys))
    return ok, statistics.median(mine), statistics.median(theirs)


def machine() -> str:
    quota = cgroup_quota()
    return (
        f"pyblitz {pb.__version__}, Python {platform.python_version()}, NumPy {np.__version__}\n"
        f"{platform.system()} {platform.release()} on {platform.machine()}: "
        f"{available_cpus()} CPUs, quota {'none' if quota is None else f'{quota:g} CPUs'}, "
        f"{pb.num_threads()} threads"
    )


def run(arguments: list[str]) -> int:
    """A program, as Python itself would run it."""
    module = arguments[0] == "-m"
    if arguments[0].startswith("-") and not (module and len(arguments) > 1):
        print(
            "usage: python -m pyblitz [--info | program.py ... | -m module ...], "
            f"not {' '.join(arguments)}",
            file=sys.stderr,
        )
        return 2
    pb.enable()
    sys.argv = arguments[1:] if module else arguments
    if module:
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")
    return 0


def main(arguments: Sequence[str] = ()) -> int:
    if "--info" in arguments:
        for name, value in info().items():
            print(f"{name}: {value}")
        return 0
    if arguments:
        return run(list(arguments))
    print(machine())
    print(f"\n{'':28}{'n':>10}{'pyblitz':>12}{'NumPy':>12}{'ratio':>8}  answers")
    rng = np.random.default_rng(2026)
    wrong = 0
    for n, repeat in ((1_000, 201), (100_000, 51), (10_000_000, 5)):
        for case in cases(n, rng):
            ok, mine, theirs = compare(case, repeat)
            wrong += not ok
            print(
                f"{case[0]:28}{n:>10}{mine * 1e6:>9.1f} us{theirs * 1e6:>9.1f} us"
                f"{theirs / mine:>7.2f}x  {'agree' if ok else 'DIFFER'}"
            )
    print("\nAll answers agree." if not wrong else f"\n{wrong} answers differ.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
