"""Checks the models and prints a table: ``python tests/model/run.py [--full] [--traces]``.

Without --full the small ones, which are also what test_model.py runs: seconds.  With --full
the large ones too: see FULL for how long.  --traces prints how each mutation breaks.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import fields, replace

from deque import NOT_ON_TSO, Deque
from explore import Result, explore

# With the states that each was found to have.  The tests accept no fewer than 9 in 10.
SMALL = {
    "joins": (Deque(jobs=3, joins=True), 81_851),
    "joins, a push": (Deque(jobs=1, pushes=1, joins=True), 33_775),
    "joins, with ends": (Deque(jobs=2, attempts=1, joins=True), 11_483),
    "joins, put back": (Deque(jobs=2, joins=True, put_back=True), 24_491),
    "joins, no membarrier": (Deque(jobs=2, pushes=1, joins=True, biased=False), 34_075),
    "pops": (Deque(jobs=3), 31_691),
    "pops, with ends": (Deque(jobs=2, pops=1, attempts=2), 25_407),
    "plain": (Deque(jobs=2, built=False), 12_761),
    "plain, with ends": (Deque(jobs=2, pops=1, attempts=1, built=False), 4_729),
}
# Seventeen minutes and 3 GB, on one core of an EPYC "Genoa".
FULL = {
    "joins": (Deque(jobs=4, joins=True), 247_333),
    "joins, from empty": (Deque(jobs=0, pushes=3, joins=True), 249_531),
    "joins, 2 pushes": (Deque(jobs=2, pushes=2, joins=True), 1_142_955),
    "joins, 3 thieves": (Deque(jobs=2, pushes=1, thieves=3, joins=True), 1_582_015),
    "joins, 4 thieves": (Deque(jobs=2, thieves=4, joins=True), 928_843),
    "joins, with ends": (Deque(jobs=2, pushes=1, attempts=2, joins=True), 1_300_029),
    "joins, put back": (Deque(jobs=2, pushes=1, joins=True, put_back=True), 229_248),
    "joins, no membarrier": (
        Deque(jobs=2, pushes=2, thieves=3, joins=True, biased=False),
        1_409_087,
    ),
    "pops": (Deque(jobs=5), 91_547),
    "pops, from empty": (Deque(jobs=0, pushes=4), 382_042),
    "pops, 2 pushes": (Deque(jobs=3, pushes=2, backlog=4), 975_186),
    "pops, long buffer": (Deque(jobs=3, pushes=1, backlog=8), 303_047),
    "pops, 3 thieves": (Deque(jobs=3, pushes=1, thieves=3), 1_536_277),
    "pops, with ends": (Deque(jobs=2, pushes=2, pops=3, attempts=2), 3_156_804),
    "pops, no membarrier": (Deque(jobs=3, pushes=2, thieves=3, biased=False), 903_270),
    "plain, 2 pushes": (Deque(jobs=3, pushes=2, built=False), 597_239),
    "plain, 3 thieves": (Deque(jobs=3, pushes=1, thieves=3, built=False), 1_309_392),
    "plain, with ends": (Deque(jobs=2, pushes=2, pops=2, attempts=2, built=False), 1_635_763),
}
# As small as shows every mutation: with the built design a rebias needs a pop of its own.
MUTANTS = {"joins": Deque(jobs=3, joins=True), "plain": Deque(jobs=2, built=False)}


def bounds(model: Deque) -> str:
    """What differs from the defaults."""
    return " ".join(
        f"{f.name}={getattr(model, f.name)}"
        for f in fields(model)
        if f.name == "jobs" or getattr(model, f.name) != f.default
    )


def check(model: Deque) -> tuple[Result, float]:
    began = time.perf_counter()
    result = explore(model.model())
    return result, time.perf_counter() - began


def cases(full: bool) -> Iterator[tuple[str, Deque, bool]]:
    """Name, model, whether it should hold."""
    for table in (SMALL, FULL) if full else (SMALL,):
        for name, (model, _) in table.items():
            yield name, model, True
    for name, model in MUTANTS.items():
        for mutation in NOT_ON_TSO:
            yield name, replace(model, mutation=mutation), True
        for mutation in model.mutations():
            yield name, replace(model, mutation=mutation), False


def main(arguments: list[str]) -> int:
    if unknown := set(arguments) - {"--full", "--traces"}:
        print(__doc__, *unknown, sep="\n")
        return 2
    as_expected = True
    print(f"{'model':24} {'bounds':54} {'states':>9} {'ends':>5} {'depth':>5} {'s':>6}  result")
    for name, model, should_hold in cases("--full" in arguments):
        result, seconds = check(model)
        verdict = "holds" if result.broken is None else f"broken: {result.broken}"
        if (result.broken is None) != should_hold:
            as_expected = False
            verdict += "  UNEXPECTED"
        print(
            f"{name:24} {bounds(model):54} {result.states:9} {result.ends:5} {result.depth:5} "
            f"{seconds:6.1f}  {verdict}",
            flush=True,
        )
        if result.broken is not None and ("--traces" in arguments or should_hold):
            print(*(f"{i:6}. {label}" for i, label in enumerate(result.trace, 1)), sep="\n")
    return 0 if as_expected else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
