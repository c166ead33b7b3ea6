"""Checks the models and prints a table: ``python tests/model/run.py [--full] [--traces] [MODEL]``.

Without --full the small sizes, and every mutation: some ten minutes.  With --full the large
ones too: half an hour, and 4 GB.  --traces prints how each mutation breaks.  Writes the table to
benchmarks/results/models.jsonl with --write.  With a MODEL (``futures.pml``) only that one is
checked, and --write leaves the others' rows as they are.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cases import FULL, HARMLESS, MUTANTS, SMALL
from spin import HERE, Result, Spin, check

ROOT = Path(__file__).resolve().parent.parent.parent


def plan(full: bool, only: set[str]) -> Iterator[tuple[str, Spin, bool]]:
    """Name, model, whether it should hold."""
    return ((name, model, holds) for name, model, holds in everything(full) if model.file in only)


def everything(full: bool) -> Iterator[tuple[str, Spin, bool]]:
    for table in (SMALL, FULL) if full else (SMALL,):
        for name, (model, _) in table.items():
            yield name, model, True
    for model in HARMLESS:
        yield model.mutation, model, True
    for model in MUTANTS:
        yield model.mutation, model, False


def timed(model: Spin) -> tuple[Result, float]:
    began = time.perf_counter()
    return check(model), time.perf_counter() - began


def main(arguments: list[str]) -> int:
    models = {path.name for path in HERE.glob("*.pml")}
    if unknown := set(arguments) - {"--full", "--traces", "--write"} - models:
        print(__doc__, *unknown, sep="\n")
        return 2
    only = models & set(arguments) or models
    rows = []
    as_expected = True
    print(f"{'model':10} {'what':34} {'states':>11} {'depth':>7} {'s':>6}  result")
    # Large searches need the memory of several: one at a time.
    with ThreadPoolExecutor(1 if "--full" in arguments else os.cpu_count()) as executor:
        planned = list(plan("--full" in arguments, only))
        results = executor.map(timed, (model for _, model, _ in planned))
        for (name, model, should_hold), (result, seconds) in zip(planned, results, strict=True):
            verdict = "holds" if result.broken is None else f"broken: {result.broken}"
            if (result.broken is None) != should_hold:
                as_expected = False
                verdict += "  UNEXPECTED"
            print(
                f"{model.file[:-4]:10} {name:34} {result.states:11,} {result.depth:7} "
                f"{seconds:6.1f}  {verdict}",
                flush=True,
            )
            if result.broken is not None and ("--traces" in arguments or should_hold):
                print(*(f"{i:6}. {step}" for i, step in enumerate(result.trace, 1)), sep="\n")
            rows.append(
                {
                    "model": model.file,
                    "what": name,
                    "mutation": model.mutation,
                    "bounds": dict(model.defines),
                    "states": result.states,
                    "broken": result.broken,
                    "as_expected": (result.broken is None) == should_hold,
                }
            )
    if "--write" in arguments:
        sys.path.append(str(ROOT))
        sys.path.insert(0, str(ROOT / "benchmarks"))
        import machine

        path, facts = machine.RESULTS / "models.jsonl", machine.facts()
        if only != models:
            commit = {"git_commit": facts["git_commit"]}
            facts, *old = (json.loads(line) for line in path.read_text().splitlines())
            rows = [row for row in old if row["model"] not in only] + [r | commit for r in rows]
        machine.write(path, rows, facts)
    return 0 if as_expected else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
