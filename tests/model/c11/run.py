"""Explores the runtime's own sources under C11 orders, and every weaker order, and prints tables:
``python tests/model/c11/run.py [--full] [--traces] [--scenarios] [--write]``.

A mutation weakens one memory order, or takes one fence away; it is run in every scenario that
reaches its place, until one notices.  Those that none notices must be in ``unneeded.py``, with the
reason.  A fence that sequentially consistent accesses make up for is also tried without these.
--full searches further, --scenarios leaves the mutations out, --traces prints how each breaks.
--write puts the tables into benchmarks/results/orders.jsonl, for docs/figures.md.
"""

from __future__ import annotations

import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

from checker import CXX20_SEQUENCES, FENCE, NO_SC_ACCESSES, Checker, sites_of
from unneeded import UNNEEDED

from build import build

ROOT = Path(__file__).resolve().parents[3]
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
    if unknown := set(arguments) - {"--full", "--traces", "--scenarios", "--write"}:
        print(__doc__, *unknown, sep="\n")
        return 2
    if {"--write", "--scenarios"} <= set(arguments):
        print("--write stores whole tables; without the mutations there is but half of one")
        return 2
    full = "--full" in arguments
    if "--write" in arguments:
        sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT)]
        import machine

        facts = {**machine.facts(), "full": full}
    rows = []
    with tempfile.TemporaryDirectory() as made:
        build(Path(made))
        with Checker(Path(made)) as checker:
            reached: dict = {}
            print(f"{'scenario':28} {'states':>9} {'steps':>9} {'ends':>6} {'s':>6}  result")
            for name in checker.scenarios:
                if not name.islower() or name == "race":
                    continue  # the checker's own tests
                rows.append(scenario(checker, name, full, reached))
            if "--scenarios" not in arguments:
                rows += mutate(checker, reached, full, "--traces" in arguments)
    if "--write" in arguments:
        machine.write(machine.RESULTS / "orders.jsonl", rows, facts)
    return 0 if all(row["as_expected"] for row in rows) else 1


def scenario(checker: Checker, name: str, full: bool, reached: dict) -> dict[str, Any]:
    """Explores one, adds its places to ``reached``, and prints its row."""
    began = time.perf_counter()
    result, preemptions = explore_well(checker, name, full)
    verdict = f"BROKEN: {result['broken']}" if result["broken"] else "holds"
    if not result["complete"]:
        verdict += f" in the first {result['states']:,} states"
    elif preemptions >= 0:
        verdict += f" with at most {preemptions} preemptions"
    not_with = []
    for weaker, text in WEAKER_MEMORIES.items():
        other = checker.explore(
            name, max_states=LIMIT[full], preemptions=preemptions, weaker=weaker
        )
        if other["broken"]:
            not_with.append(text)
            verdict += f"; not with {text}"
    print(
        f"{name:28} {result['states']:9,} {result['transitions']:9,} "
        f"{result['ends']:6,} {time.perf_counter() - began:6.1f}  {verdict}",
        flush=True,
    )
    if result["broken"]:
        print(*result["trace"], sep="\n")
    for site in sites_of(result):
        reached.setdefault(site, []).append((result["states"], name, preemptions))
    return {
        "what": "scenario",
        "name": name,
        "states": result["states"],
        "steps": result["transitions"],
        "preemptions": preemptions if preemptions >= 0 else None,
        "complete": result["complete"],
        "broken": result["broken"],
        "not_with": not_with,
        "as_expected": not result["broken"],
    }


def mutate(checker: Checker, reached: dict, full: bool, traces: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    print(f"\n{'mutation':75} {'states':>9} {'s':>6}  noticed by")
    for site in sorted(reached):
        holds = False
        for mutation in site.mutations():
            if holds and mutation.part == 0:
                continue  # with a weaker order already
            states, began, by, noticed_in = 0, time.perf_counter(), None, None
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
                    noticed_in = name
                    without = " (accesses not seq_cst)" if weaker else ""
                    by = f"{name}{without}: {result['broken']}"
                    break
            holds |= by is None
            as_expected = (by is None) == (mutation.name in UNNEEDED)
            rows.append(
                {
                    "what": "mutation",
                    "name": mutation.name,
                    "source": site.file,
                    "states": states,
                    "noticed_in": noticed_in,
                    "broken": result["broken"],
                    "as_expected": as_expected,
                }
            )
            if not as_expected:
                by = f"{by}  UNEXPECTED"
            seconds = time.perf_counter() - began
            print(
                f"{mutation.name:75} {states:9,} {seconds:6.1f}  "
                f"{by or '-- ' + UNNEEDED.get(mutation.name, '')}",
                flush=True,
            )
            if traces and result["broken"]:
                print(*result["trace"], sep="\n")
    noticed = sum(row["noticed_in"] is not None for row in rows)
    print(f"{noticed} of {len(rows)} mutations noticed")
    for name in set(UNNEEDED) - {row["name"] for row in rows}:
        print(f"{name}: in unneeded.py, but there is no such mutation  UNEXPECTED")
        rows.append({"what": "unneeded", "name": name, "as_expected": False})
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
