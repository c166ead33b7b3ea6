"""Explores the runtime's own sources under C11 orders, and every weaker order, and prints tables:
``python tests/model/c11/run.py [--full] [--traces] [--scenarios]``.

A mutation weakens one memory order, or takes one fence away; it is run in every scenario that
reaches its place, until one notices.  Those that none notices must be in ``unneeded.py``, with the
reason.  A fence that sequentially consistent accesses make up for is also tried without these.
--full searches further, --scenarios leaves the mutations out, --traces prints how each breaks.
"""

from __future__ import annotations

import sys
import tempfile
import time
from itertools import product
from pathlib import Path

from checker import CXX20_SEQUENCES, FENCE, NO_SC_ACCESSES, Checker, sites_of
from unneeded import UNNEEDED

from build import build

# A search that is too large for so many states is tried again with fewer preemptions; without
# --full, BOUND is all that some scenarios get.
LIMIT = {False: 1_000_000, True: 20_000_000}
PREEMPTIONS = (-1, 6, 5, 4, 3, 2, 1)
BOUND = {
    "deque, growth, two thieves": 1,
    "deque, biased, two thieves": 2,
    "deque, bias begins, two thieves": 2,
    "deque, refused, and more": 2,
    "deque, refused, two thieves": 1,
    "deque, biased again": 2,
    "sleep, two jobs": 3,
    "sleep, retirement, two jobs": 2,
    "sleep, a start, and retirement": 2,
    "sleep, refused": 2,
    "sleep, refused, mail": 2,
    "sleep, refused twice": 2,
    "sleep, refused, a lane": 1,
    "sleep, dead, a lane": 3,
    "sleep, refused, revived": 2,
    "sleep, moved jobs": 3,
    "sleep, two posters": 2,
    "sleep, a job for either": 1,
    "sleep, two workers": 1,
    "sleep, mail": 2,
}
# A mutation is looked for in the first so many states of each scenario.
MUTANT_LIMIT = {False: 60_000, True: 2_000_000}
# And here at least, for one fence is noticed late.
MUTANT_LEAST = {"sleep, refused, a lane": 120_000}


WEAKER_MEMORIES = {NO_SC_ACCESSES: "acquire/release", CXX20_SEQUENCES: "C++20"}


def explore_well(checker: Checker, name: str, full: bool) -> tuple[dict, int]:
    """With as many preemptions as are done within the limit."""
    for preemptions in PREEMPTIONS if full else (BOUND.get(name, -1),):
        result = checker.explore(name, max_states=LIMIT[full], preemptions=preemptions)
        if result["complete"] or result["broken"]:
            break
    return result, preemptions


def main(arguments: list[str]) -> int:
    if unknown := set(arguments) - {"--full", "--traces", "--scenarios"}:
        print(__doc__, *unknown, sep="\n")
        return 2
    full = "--full" in arguments
    as_expected = True
    with tempfile.TemporaryDirectory() as made:
        build(Path(made))
        with Checker(Path(made)) as checker:
            reached: dict = {}
            print(f"{'scenario':28} {'states':>9} {'steps':>9} {'ends':>6} {'s':>6}  result")
            for name in checker.scenarios:
                if not name.islower() or name == "race":
                    continue  # the checker's own tests
                began = time.perf_counter()
                result, preemptions = explore_well(checker, name, full)
                verdict = f"BROKEN: {result['broken']}" if result["broken"] else "holds"
                if not result["complete"]:
                    verdict += f" in the first {result['states']:,} states"
                elif preemptions >= 0:
                    verdict += f" with at most {preemptions} preemptions"
                for weaker, text in (
                    (NO_SC_ACCESSES, "acquire/release"),
                    (CXX20_SEQUENCES, "C++20"),
                ):
                    other = checker.explore(
                        name, max_states=LIMIT[full], preemptions=preemptions, weaker=weaker
                    )
                    if other["broken"]:
                        verdict += f"; not with {text}"
                print(
                    f"{name:28} {result['states']:9,} {result['transitions']:9,} "
                    f"{result['ends']:6,} {time.perf_counter() - began:6.1f}  {verdict}",
                    flush=True,
                )
                if result["broken"]:
                    as_expected = False
                    print(*result["trace"], sep="\n")
                for site in sites_of(result):
                    reached.setdefault(site, []).append((result["states"], name, preemptions))
            if "--scenarios" in arguments:
                return 0 if as_expected else 1
            as_expected &= mutate(checker, reached, full, "--traces" in arguments)
    return 0 if as_expected else 1


def mutate(checker: Checker, reached: dict, full: bool, traces: bool) -> bool:
    noticed = total = 0
    used = set()
    as_expected = True
    print(f"\n{'mutation':75} {'states':>9} {'s':>6}  noticed by")
    for site in sorted(reached):
        holds = False
        for mutation in site.mutations():
            if holds and mutation.part == 0:
                continue  # with a weaker order already
            total += 1
            states, began, by = 0, time.perf_counter(), None
            weaknesses = (0, NO_SC_ACCESSES) if site.kind == FENCE else (0,)
            for weaker, (_, name, preemptions) in product(weaknesses, sorted(reached[site])):
                result = checker.explore(
                    name,
                    max_states=max(MUTANT_LIMIT[full], MUTANT_LEAST.get(name, 0)),
                    preemptions=preemptions,
                    weaker=weaker,
                    mutations=[mutation.key()],
                )
                states += result["states"]
                if result["broken"]:
                    without = " (accesses not seq_cst)" if weaker else ""
                    by = f"{name}{without}: {result['broken']}"
                    break
            noticed += by is not None
            holds |= by is None
            expected = mutation.name in UNNEEDED
            used.add(mutation.name)
            if (by is None) != expected:
                as_expected = False
                by = f"{by}  UNEXPECTED"
            seconds = time.perf_counter() - began
            print(
                f"{mutation.name:75} {states:9,} {seconds:6.1f}  "
                f"{by or '-- ' + UNNEEDED.get(mutation.name, '')}",
                flush=True,
            )
            if traces and result["broken"]:
                print(*result["trace"], sep="\n")
    for name in set(UNNEEDED) - used:
        as_expected = False
        print(f"{name}: in unneeded.py, but there is no such mutation  UNEXPECTED")
    print(f"{noticed} of {total} mutations noticed")
    return as_expected


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
