"""python benchmarks/figures.py: writes docs/figures.md from the last results.

The page is nothing but the data of benchmarks/results beside the goals, so that
what it says is what the last runs measured; a test holds it to that.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "results"
PAGE = HERE.parent / "docs" / "figures.md"

Row = dict[str, Any]

INTRODUCTION = """\
# Figures

What the benchmarks measured last, beside what was aimed at. Written by
`python benchmarks/figures.py` from [the data](../benchmarks/results); how to
measure it yourself: [benchmarks](../benchmarks/README.md). Times are medians of
runs taken in turn; a ratio above 1 means that pyblitz is faster.
"""


def load(name: str) -> tuple[Row, list[Row]]:
    """The machine's facts, and the rows."""
    lines = [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text().splitlines()]
    return lines[0], lines[1:]


def machine(facts: Row) -> str:
    return (
        f"{facts['cpu']}, {facts['cpus']} CPUs, {facts['system']}; {facts['python']}, "
        f"NumPy {facts['numpy']}; {facts['compiler']}; commit {facts['git_commit'][:10]}, "
        f"{facts['date'][:10]}, load {facts['load']:.2f} at the start."
    )


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def met(yes: bool) -> str:
    return "yes" if yes else "**no**"


def join_page() -> str:
    facts, rows = load("join")
    found = {(r["who"], r["what"], r.get("threads")): r for r in rows}
    one, two = found["pyblitz", "join", 1], found["pyblitz", "join", 2]
    share = two["total_ns_min"] / one["total_ns_min"]
    lines = [
        [
            "one thread, over the plain call",
            f"{one['ns_median']:.1f} ns",
            "at most 8 ns",
            met(one["ns_median"] <= 8),
        ],
        [
            "two threads, whole tree, of one thread's time",
            f"{share:.2f}",
            "at most 0.6",
            met(share <= 0.6),
        ],
    ]
    peers = []
    for what, label in (
        ("join", "a join, one thread"),
        ("join", "a join, two threads"),
        ("latency", "a job from outside, sleeping pool, caller polls"),
        ("latency_blocked", "the same, caller sleeps"),
        ("warm", "the same, warm pool, caller polls"),
        ("warm_blocked", "the same, caller sleeps"),
    ):
        threads = 1 if label.endswith("one thread") else 2
        ours, theirs = found.get(("pyblitz", what, threads)), found.get(("rayon", what, threads))
        if ours is None:
            continue
        peers.append(
            [
                label,
                f"{ours['ns_median']:,.1f} ns",
                f"{theirs['ns_median']:,.1f} ns" if theirs else "not here",
            ]
        )
        if what == "latency" and theirs:
            fine = ours["ns_median"] <= theirs["ns_median"]
            lines.append(
                [
                    "a job from outside to a sleeping pool",
                    f"{ours['ns_median'] / 1e3:.1f} us",
                    f"at most Rayon's ({theirs['ns_median'] / 1e3:.1f} us)",
                    met(fine),
                ]
            )
    return (
        "\n## Forks\n\nA join of two empty leaves in a full binary tree of depth 20.\n"
        + machine(facts)
        + "\n\n"
        + table(["what", "measured", "goal", "met"], lines)
        + "\n"
        + table(["", "pyblitz", "Rayon"], peers)
    )


GOALS = {
    "par_map(np.exp, a, out=o)": 1.8,
    "par_map(np.add, a, b)": 1.7,
    "par_reduce(np.add, a)": 1.8,
    "par_sort(a), int64": 1.5,
    "par_sort(a), float64": 1.5,
    "par_sort(a), int32": 1.5,
    "par_sort(a), float32": 1.5,
}


def microseconds(ns: float) -> str:
    return f"{ns / 1e3:,.1f}"


def arrays_page() -> str:
    facts, rows = load("arrays")
    kind = {what: [r for r in rows if r["what"] == what] for what in ("large", "limit", "small")}
    kind["sweep"] = [r for r in rows if r["what"] == "sweep"]
    (idle,) = [r for r in rows if r["what"] == "idle"]
    (callers,) = [r for r in rows if r["what"] == "callers"]
    head = ["two threads", "pyblitz us", "NumPy us", "ratio", "goal", "met"]
    large = [
        [
            f"`{r['name']}`",
            microseconds(r["pyblitz_ns"]),
            microseconds(r["numpy_ns"]),
            f"{r['ratio']:.2f}",
            f"{GOALS[r['name']]}",
            met(r["ratio"] >= GOALS[r["name"]]),
        ]
        for r in kind["large"]
    ]
    limit = [
        [
            f"`{r['name']}`",
            microseconds(r["pyblitz_ns"]),
            microseconds(r["numpy_ns"]),
            f"{r['ratio']:.2f}",
        ]
        for r in kind["limit"]
    ]
    small = [
        [
            f"`{r['name']}`",
            microseconds(r["pyblitz_ns"]),
            microseconds(r["numpy_ns"]),
            f"{r['over_ns'] / 1e3:.2f} us",
            met(r["over_ns"] <= 1500),
        ]
        for r in kind["small"]
    ]
    sweep = [
        [
            f"`{r['name']}`",
            f"{r['n']:,}",
            f"{r['pyblitz_ns'] / r['numpy_ns']:.2f}",
            f"{r['over_ns'] / 1e3:.2f} us",
            met(r["within"]),
        ]
        for r in kind["sweep"]
    ]
    rest = [
        [
            f"CPU time of an idle process with a used pool, {idle['name']}",
            f"{idle['cpu_ns'] / 1e6:.2f} ms",
            "below 5 ms",
            met(idle["cpu_ns"] < 5e6),
        ],
        [
            f"{callers['name']}, {callers['calls']:,} calls",
            f"{callers['wrong']} wrong, {callers['seconds']} s",
            "0 wrong, no hang",
            met(callers["wrong"] == 0),
        ],
    ]
    return (
        "\n## Arrays\n\nTen million elements, NumPy in the same process.\n"
        + machine(facts)
        + "\n\n"
        + table(head, large)
        + "\nWhat memory bounds cannot gain more than memory gives. Two Python threads that\n"
        "each call NumPy on one half, again and again, reached in the same run:\n\n"
        + table(["two halves", "two threads us", "one us", "ratio"], limit)
        + "\nOne thousand elements: what pyblitz adds (goal: at most 1.5 us).\n\n"
        + table(["", "pyblitz us", "NumPy us", "added", "met"], small)
        + "\nThe worst of all powers of two up to 10^7 (goal: at most 1.1 of NumPy's time, or\n"
        "1.5 us more).\n\n"
        + table(["", "n", "of NumPy's time", "added", "met"], sweep)
        + "\n"
        + table(["what", "measured", "goal", "met"], rest)
    )


def page() -> str:
    return INTRODUCTION + join_page() + arrays_page()


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stdout.write(page())
