"""python benchmarks/figures.py: writes docs/figures.md, docs/scale.md and their charts from
the last results.

The pages are nothing but the data of benchmarks/results beside the goals, so that what
they say is what the last runs measured; a test holds them to that.
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "results"
DOCS = HERE.parent / "docs"
sys.path.append(str(HERE))

import enable_chart  # noqa: E402
import library_chart  # noqa: E402
import never_slower  # noqa: E402
import never_slower_chart  # noqa: E402
import sorting_chart  # noqa: E402
from simulate import chart, costs, report  # noqa: E402

Row = dict[str, Any]

INTRODUCTION = """\
# Figures

What the benchmarks measured last, beside what was aimed at. Written by
`python benchmarks/figures.py` from [the data](../benchmarks/results); how to
measure it yourself: [benchmarks](../benchmarks/README.md). Runs are taken in turn;
each section says whether it shows medians or least times. A ratio above 1 means that
pyblitz is faster.
"""


def load(name: str) -> tuple[Row, list[Row]]:
    """The machine's facts, and the rows."""
    lines = [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text().splitlines()]
    return lines[0], lines[1:]


def machine(facts: Row) -> str:
    kind = f" ({facts['cpu_kind']})" if "cpu_kind" in facts else ""
    changed = " with changes" if facts["git_commit"].endswith("+") else ""
    return (
        f"{facts['cpu']}{kind}, {facts['cpus']} CPUs, {facts['system']}; {facts['python']}, "
        f"NumPy {facts['numpy']}; {facts['compiler']}; commit {facts['git_commit'][:10]}{changed}, "
        f"{facts['date'][:10]}, load {facts['load']:.2f} at the start."
    )


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def met(yes: bool) -> str:
    return "yes" if yes else "**no**"


# What of a row is shown, beside which goal (of the latency, how many times a futex's; of the
# least time, where it is a difference of two), and the same of the peers.
Entry = tuple[str, str, int, str, float]
SCHEDULER: list[Entry] = [
    ("a join over the plain calls, empty tree of depth 20, 1 thread, ns", "join", 1, "ns_min", 3.5),
    ("the same, 2 threads", "join", 2, "ns_min", 2.0),
    ("a lazy join, the same tree, 1 thread, ns", "join_lazy", 1, "ns_min", 2.0),
    ("the same, 2 threads", "join_lazy", 2, "ns_min", 1.5),
    ("fib(35), lazy join at every call, 2 threads, ms", "fib lazy", 2, "total_ns_min", 32e6),
    (
        "sum of a tree of 10^7 nodes, lazy, over plain, 1 thread, ns",
        "treesum lazy",
        1,
        "ns_min",
        0.4,
    ),
    ("the same, all of it, 2 threads", "treesum lazy", 2, "total_ns_min", 2.3),
    ("spawn_many, 10^6 empty tasks, ns each", "spawn_many", 2, "ns_median", 30),
    ("scope_map, the same", "scope_map", 2, "ns_median", 30),
    ("keyed jobs, 10^6 over 1,000 keys, ns each", "keyed", 2, "ns_median", 150),
    ("a job from outside, sleeping pool, us", "latency", 2, "ns_median", 1.3),
    ("the same, warm pool", "warm", 2, "ns_median", 1.5e3),
    ("sibling of a leaf of 1 s starts after, eager, us", "sibling eager", 2, "ns_median", 100e3),
    ("the same, lazy with ticks", "sibling lazy", 2, "ns_median", 100e3),
]
UNITS = {"us": 1e3, "ms": 1e6}
# Ours, theirs, and what of it.
PEERS = [
    ("a join over the plain calls, 1 thread, ns", "join", "join", 1, "ns_min"),
    ("the same, 2 threads", "join", "join", 2, "ns_min"),
    ("fib(35), 2 threads, ms", "fib lazy", "fib", 2, "total_ns_min"),
    ("the same with eager joins", "fib forked", "fib", 2, "total_ns_min"),
    ("tree sum, 1 thread, ns per node", "treesum lazy", "treesum", 1, "total_ns_min"),
    ("the same, 2 threads", "treesum lazy", "treesum", 2, "total_ns_min"),
    (
        "tree of 1,000 nodes, 8 threads, us",
        "treesum_small lazy",
        "treesum_small",
        8,
        "total_ns_min",
    ),
    ("loop of 1,000 times 0.7 us, us", "parallel_for", "parallel_for", 2, "ns_median"),
    ("a task spawned alone, ns", "spawn", "spawn", 2, "ns_median"),
    ("a job from outside, sleeping pool, caller polls, us", "latency", "latency", 2, "ns_median"),
    ("the same, caller sleeps", "latency_blocked", "latency_blocked", 2, "ns_median"),
    ("the same, warm pool, caller polls", "warm", "warm", 2, "ns_median"),
    ("the same, caller sleeps", "warm_blocked", "warm_blocked", 2, "ns_median"),
]


def scale_of(labels: list[str], i: int) -> float:
    """Nanoseconds in the unit that a label ends in; "the same" has the one above."""
    while labels[i].startswith("the same"):
        i -= 1
    return UNITS.get(labels[i].split(",")[-1].split()[0], 1)


def number(ns: float, scale: float) -> str:
    return f"{ns / scale:,.2f}" if abs(ns / scale) < 10 else f"{ns / scale:,.1f}"


def scheduler_page(kind_of_cpu: str) -> str:
    facts, rows = load("scheduler/" + kind_of_cpu)
    found = {(r["who"], r["what"], r.get("threads")): r for r in rows}
    labels = [entry[0] for entry in SCHEDULER]
    lines = []
    for i, (label, what, threads, key, goal) in enumerate(SCHEDULER):
        value, scale = found["pyblitz", what, threads][key], scale_of(labels, i)
        if what == "latency":
            goal *= found["a futex alone", "latency", 2]["ns_median"]
        lines.append(
            [label, number(value, scale), f"at most {goal / scale:.3g}", met(value <= goal)]
        )
    loop = found["pyblitz", "parallel_for", 2]
    over = loop["ns_min"] / loop["ideal_ns"]
    lines.append(
        [
            "loop of 1,000 times 0.7 us, warm, of the ideal",
            f"{over:.3f}",
            "at most 1.02",
            met(over <= 1.02),
        ]
    )
    small = found["pyblitz", "treesum_small lazy", 8]
    share = small["total_ns_min"] / small["plain_ns_min"]
    lines.append(
        [
            "tree of 1,000 nodes, 8 threads on 2 CPUs, of the plain sum",
            f"{share:.2f}",
            "at most 1.3",
            met(share <= 1.3),
        ]
    )
    plain_fib = found["pyblitz", "fib lazy", 1]["plain_ns_min"]
    futex = found["a futex alone", "latency", 2]["ns_median"]
    names = [("pyblitz", "pyblitz"), ("rayon", "Rayon"), ("tbb", "oneTBB"), ("openmp", "OpenMP")]
    labels = [entry[0] for entry in PEERS]
    peers = []
    for i, (label, ours, theirs, threads, key) in enumerate(PEERS):
        line = [label]
        for who, _ in names:
            r = found.get((who, ours if who == "pyblitz" else theirs, threads))
            their_key = key if r is None or key in r else "ns_min"
            line.append("" if r is None else number(r[their_key], scale_of(labels, i)))
        peers.append(line)
    missing = "".join(f"{r['who']}: {r['missing']}.\n" for r in rows if "missing" in r)
    return (
        "\n## The scheduler\n\n"
        "Trees and fib: least times; the others: medians. What a join adds is the time of a\n"
        "tree less that of the same calls without joins on one thread; with two threads, who\n"
        "share the tree, that is no longer what a join costs, and may be nothing or less. The\n"
        "plain tree sum is the same kernel with calls in the place of joins, through a pointer,\n"
        "so that the compiler inlines neither.\n"
        + machine(facts)
        + "\n\n"
        + table(["two threads unless said", "measured", "goal", "met"], lines)
        + "\nfib(35) without joins, which the compiler inlines several levels deep, takes\n"
        f"{plain_fib / 1e6:.1f} ms on one thread: kernels of a nanosecond gain from a cut-off.\n"
        f"A futex alone, which wakes a thread that slept for 20 ms, takes {futex / 1e3:.1f} us\n"
        "here: no job from outside can do with less. What wakes a thread takes one of two times,\n"
        "as Linux puts it on the caller's CPU or on the other; the warm job is many times\n"
        "faster on the other.\n\n"
        + table(["the peers, in turn in the same run", *(label for _, label in names)], peers)
        + "\n"
        + ", ".join(facts["peers"].values())
        + ".\nTheir trees are the same, their plain calls inlined by their compilers; they have\n"
        "one to three runs each.\n" + missing
    )


def counts_page() -> str:
    facts, rows = load("counts")
    instructions = [[r["what"], f"{r['count']:.1f}"] for r in rows if "count" in r]
    missing = "".join(f"Instructions: {r['missing']}.\n" for r in rows if "missing" in r)
    operations = [
        [
            r["what"],
            str(r["threads"]),
            str(r["bound"]),
            *(f"{r[k]:g}" for k in ("steals", "failed_steals", "promotions", "wakes")),
        ]
        for r in rows
        if "bound" in r
    ]
    bursts = [
        [
            f"{r['what']} of 10^4 jobs, {r['threads']} threads",
            f"{r['median']:g}, at most {r['most']:g}",
            "at most 0.01",
            met(r["most"] <= 0.01),
        ]
        for r in rows
        if "most" in r
    ]
    return (
        "\n## Counts\n\nThese do not depend on the clock (a join is one that nobody steals, over\n"
        "two calls; a wake is without the system call).\n"
        + machine(facts)
        + "\n\n"
        + (table(["instructions", ""], instructions) if instructions else "")
        + missing
        + "\nMedians over operations. A failed steal is one that somebody else won;\n"
        "a promotion shows a lazy fork to thieves, as each of a loop's right halves is once the\n"
        "loop is shared. The theory expects O(P * depth) steals (Blumofe and\n"
        "Leiserson, 1999); P * depth is the bound below.\n\n"
        + table(
            ["operation", "threads", "P * depth", "steals", "failed", "promotions", "wakes"],
            operations,
        )
        + "\n"
        + table(["what", "measured", "goal", "met"], bursts)
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


def arrays_page(kind_of_cpu: str) -> str:
    facts, rows = load("arrays/" + kind_of_cpu)
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
        + "\nMedians. For comparison, what two Python threads that each call NumPy on one half,\n"
        "again and again, reached in the same run; memory bounds both, and changes by the minute.\n"
        "(The sorts gain more than two threads can give: their algorithm is not np.sort's.)\n\n"
        + table(["two halves", "two threads us", "one us", "ratio"], limit)
        + "\nOne thousand elements: what pyblitz adds (goal: at most 1.5 us).\n\n"
        + table(["", "pyblitz us", "NumPy us", "added", "met"], small)
        + "\nThe worst of all powers of two up to 10^7 (goal: at most 1.1 of NumPy's time, or\n"
        "1.5 us more).\n\n"
        + table(["", "n", "of NumPy's time", "added", "met"], sweep)
        + "\n"
        + table(["what", "measured", "goal", "met"], rest)
    )


LIBRARY_PEERS = ["NumPy", "numexpr", "Numba", "torch", "Polars", "dask"]
LIBRARY_PARTS = {
    "expression": "pipelines",
    "squares": "pipelines",
    "reduction": "reductions",
    "search": "search",
    "move": "moves",
    "mandelbrot": "Mandelbrot",
    "callable": "Python functions",
    "small": "small arrays",
    "memory": "memory",
}


def size(n: int) -> str:
    """A power of ten as one."""
    power = len(str(n)) - 1
    return f"10^{power}" if n == 10**power else f"{n:,}"


def milliseconds(ns: float | None) -> str:
    if ns is None:
        return ""
    return f"{ns / 1e6:.3g}" if ns < 1e9 else f"{ns / 1e6:,.0f}"


def time_of(r: Row, who: str) -> float | None:
    """Median nanoseconds; of Polars, the faster of its two ways."""
    found = [r["ns"][k] for k in (who, f"{who}, streaming") if k in r["ns"]]
    return min(found, default=None)


def reached(g: Row) -> str:
    """What of a goal was measured, in bold where it is not enough."""
    if g["value"] is None:
        return "-"
    value = f"{g['value']:.3g}"
    return value if g["met"] else f"**{value}**"


def amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def absent(r: Row) -> str:
    return next((key for key in ("missing", "failed", "unavailable") if key in r), "")


def goal_of(r: Row, text: str) -> Row | None:
    return next((g for g in r["goals"] if g["goal"].startswith(text)), None)


def named(r: Row) -> str:
    return f"`{r['name']}`"


def beside_peers(
    rows: list[Row],
    more: list[tuple[str, str]],
    peers: Sequence[str] = LIBRARY_PEERS,
    label: Callable[[Row], str] = named,
) -> str:
    """Milliseconds of all, and what was reached of the goals: (head, goal).  Where NumPy or
    the best peer is no goal, there is what it is."""
    who = [name for name in peers if any(time_of(r, name) for r in rows)]
    lines = []
    for r in rows:
        said = {"x NumPy": r["ratio_numpy"], "x best peer": r["ratio_peer"]}
        goals = [
            goal_of(r, text)
            or ({"value": said[text], "met": True} if said.get(text) is not None else None)
            for _, text in more
        ]
        lines.append(
            [
                label(r),
                size(r["n"]),
                *(milliseconds(time_of(r, name)) for name in ("pyblitz", *who)),
                *("" if g is None else reached(g) for g in goals),
                absent(r) or (met(r["met"]) if r["goals"] else ""),
            ]
        )
    return table(["", "n", "pyblitz ms", *who, *(head for head, _ in more), "met"], lines)


def reductions_table(rows: list[Row]) -> str:
    """The best peer's time over pyblitz's, by size."""
    sizes = sorted({r["n"] for r in rows})
    lines = []
    for name, dtype in dict.fromkeys((r["name"], r["dtype"]) for r in rows):
        own = {r["n"]: r for r in rows if (r["name"], r["dtype"]) == (name, dtype)}
        line = [f"`{name}`, {dtype}"]
        for n in sizes:
            g = goal_of(own[n], "x best peer") if n in own else None
            peer = own[n]["best_peer"] if n in own else None
            line.append("" if g is None else absent(own[n]) or f"{reached(g)} {peer}")
        last = own.get(sizes[-1])
        share = last and goal_of(last, "of the C loop")
        line.append(reached(share) if share else "")
        line.append(f"{last['gb_per_s'].get('pyblitz', '-')}" if last and share else "")
        lines.append(line)
    head = [size(n) for n in sizes]
    return table(["n", *head, "of the C loop's bandwidth", "GB/s"], lines)


def losses(
    rows: list[Row],
    parts: Mapping[str, str] = LIBRARY_PARTS,
    no_goal: Collection[str] = ("expression", "search", "callable"),
) -> str:
    """Every goal that was not met, who else was faster where that is no goal, and what there
    is not yet."""
    lines: list[str] = []
    lacking: dict[str, list[str]] = {}
    for r in rows:
        part = parts[r["what"]]
        where = f"{part}: `{r['name']}`, {size(r['n'])} {r['dtype']}"
        where += f", layer {r['layer']}" if r.get("layer") else ""
        if "missing" in r:
            lacking.setdefault(part, []).append(f"`{r['name']}`")
            continue
        if absent(r):
            lines.append(f"- {where}: {absent(r)} ({r[absent(r)]}).")
            continue
        said = []
        for g in r["goals"]:
            if not g["met"]:
                peer = f" ({r['best_peer']})" if g["goal"] == "x best peer" else ""
                value = "not measured" if g["value"] is None else amount(g["value"])
                said.append(f"{g['goal']}{peer}: {value}, goal {g['limit']:g}")
        if r.get("right") is False:
            said.append("a wrong result")
        ratio = r.get("ratio_peer")
        about_them = ("x best peer", f"x {r.get('best_peer')}")
        is_goal = any(g["goal"] in about_them for g in r["goals"])
        if ratio is not None and ratio < 1 and r["what"] in no_goal and not is_goal:
            said.append(f"{r['best_peer']} is faster: {ratio:.3g}")
        if said:
            lines.append(f"- {where}: {'; '.join(said)}.")
    lines += [
        f"- {part}, missing: {', '.join(dict.fromkeys(names))}." for part, names in lacking.items()
    ]
    return "\n".join(lines) + "\n" if lines else "Nowhere: every goal is met.\n"


def small_table(rows: list[Row], label: Callable[[Row], str] = named) -> str:
    """What is added to NumPy's time, the most first."""
    lines = [
        [
            label(r),
            microseconds(r["ns"]["NumPy"]) if "NumPy" in r["ns"] else "",
            f"{r['over_ns'] / 1e3:.2f}" if "over_ns" in r else "",
            absent(r) or met(r["met"]),
        ]
        for r in sorted(rows, key=lambda r: -r.get("over_ns", float("inf")))
    ]
    return table(["", "NumPy us", "added us", "met"], lines)


def library_page(kind_of_cpu: str) -> str:
    facts, rows = load("library/" + kind_of_cpu)
    kind = {what: [r for r in rows if r["what"] == what] for what in LIBRARY_PARTS}
    pipelines = beside_peers(
        kind["expression"] + kind["squares"],
        [
            ("x NumPy", "x NumPy"),
            ("x numexpr", "x numexpr"),
            ("x best peer", "x best peer"),
            ("x one thread", "x one thread"),
        ],
    )
    moves = beside_peers(kind["move"], [("x NumPy", "x NumPy"), ("x best peer", "x best peer")])
    search = [
        [
            f"`{r['name']}`",
            size(r["n"]),
            *(milliseconds(ns) for ns in (r["ns"].get("pyblitz"), r["full_scan_ns"])),
            *("" if g is None else reached(g) for g in [goal_of(r, "of the full scan")]),
            absent(r) or met(r["met"]),
        ]
        for r in kind["search"]
    ]
    kernels = [
        [
            r["name"] + (f", beside Numba's {r['layer']}" if r.get("layer") else ""),
            milliseconds(r["ns"].get("pyblitz")),
            milliseconds(r["ns"].get("pyblitz, 1 thread")),
            "" if (g := goal_of(r, "x one thread")) is None else reached(g),
            milliseconds(next((v for k, v in r["ns"].items() if "prange" in k), None)),
            "" if (g := goal_of(r, "x Numba prange")) is None else reached(g),
            absent(r) or met(r["met"]),
        ]
        for r in kind["mandelbrot"] + kind["callable"]
    ]
    memory = [
        [
            f"`{r['name']}`",
            "" if r["bytes"] is None else f"{r['bytes'] / 2**20:.1f}",
            f"{r['numpy_bytes'] / 2**20:,.0f}" if "numpy_bytes" in r else "",
            absent(r) or met(r["met"]),
        ]
        for r in kind["memory"]
    ]
    with_goals = [r for r in rows if r["goals"]]
    fulfilled = [r for r in with_goals if r["met"]]
    versions = ", ".join(f"{name} {version}" for name, version in facts["peers"].items())
    return (
        "\n## The array library\n\n"
        "Two threads for everyone, the same arrays in one process in turn; medians. A ratio is\n"
        "the other's time over pyblitz's; NumPy is a peer too, and Polars is the faster of its\n"
        "eager and its streaming way. Bold: not as good as the goal.\n"
        + machine(facts)
        + f"\nPeers: {versions}.\n\n"
        + "![Time of one element by the number of elements: the expression and the sum]"
        + f"(library-{kind_of_cpu}.svg)\n\n"
        + f"{len(fulfilled)} of {len(with_goals)} rows meet their goals.\n\n"
        + "Pipelines (goals: faster than NumPy and numexpr, 1.9 x one thread; of the squares\n"
        "2.5 x NumPy and ahead of every peer):\n\n"
        + pipelines
        + "\nReductions: the best peer's time over pyblitz's (goal: 0.95), and at the largest\n"
        "size the share of the bandwidth that two threads of C reach (goal: 0.9):\n\n"
        + reductions_table(kind["reduction"])
        + "\nThe first hit at 1 % of the array (goal: 0.02 of the scan of all of it):\n\n"
        + table(["", "n", "pyblitz ms", "full scan ms", "of it", "met"], search)
        + "\nMoves (goals: 1.7 x NumPy, and ahead of every peer):\n\n"
        + moves
        + "\nMandelbrot, 1000 x 1000 points, and a Python function on blocks (goals: 1.95 x one\n"
        "thread and ahead of Numba's prange; 1.8 x one thread):\n\n"
        + table(
            ["", "pyblitz ms", "1 thread", "x one thread", "Numba prange", "x Numba", "met"],
            kernels,
        )
        + "\nOne thousand elements: what pyblitz adds to NumPy's time (goal: at most 1.5 us):\n\n"
        + small_table(kind["small"])
        + "\nMemory at the peak of a pipeline that ends in a scalar, beside the arrays, "
        + (f"{size(kind['memory'][0]['n'])} elements" if kind["memory"] else "not measured")
        + " (goal:\nless than 16 MiB):\n\n"
        + table(["", "MiB", "NumPy's MiB", "met"], memory)
        + "\nWhere pyblitz loses:\n\n"
        + losses(rows)
    )


SORTING_PEERS = [
    "NumPy",
    "Polars",
    "torch",
    "pyarrow",
    "pandas",
    "SciPy",
    "Rayon",
    "TBB",
    "GNU parallel",
]
SORTING_PARTS = {
    "random": "random",
    "held": "NumPy held to AVX2",
    "dtypes": "dtypes",
    "patterns": "patterns",
    "stable": "stable",
    "argsort": "argsort",
    "unique": "unique",
    "lexsort": "lexsort",
    "group_by": "groups",
    "rows": "rows",
    "relatives": "relatives",
    "small": "small arrays",
    "memory": "memory",
}
# What a table has: its rows, what is said before it, and the goals beside NumPy and the best.
SORTING_TABLES: list[tuple[tuple[str, ...], str, list[str]]] = [
    (
        ("random",),
        "Random numbers (goals: 1.5 x NumPy at 10^5, 1.2 for 4 bytes, 1.8 at 10^6, 2.0 from 10^7\n"
        "on, and ahead of every peer; at 10^8 only the fastest take part)",
        [],
    ),
    (
        ("held",),
        "The same with NumPy held to AVX2, which most CPUs have for it, in a process of its own\n"
        "(goals: on one thread as fast as NumPy, on two as above)",
        [],
    ),
    (
        ("dtypes",),
        "Other dtypes (goals: 3 x NumPy, and ahead of every peer)",
        [],
    ),
    (
        ("patterns",),
        "Patterns, int64 (goal: 0.95 of the best peer)",
        [],
    ),
    (
        ("stable", "rows"),
        "Stable, and many rows (goals: 4 x NumPy, 1.9 x NumPy)",
        [],
    ),
    (
        ("argsort",),
        "The order (goals: 4 x NumPy, ahead of torch and Polars)",
        ["x torch", "x Polars"],
    ),
    (
        ("unique",),
        "Distinct values, which the peers may give in any order (goals: ahead of NumPy, Polars\n"
        "and pandas)",
        ["x Polars", "x pandas"],
    ),
    (
        ("lexsort", "group_by"),
        "Three columns, and groups (goals: 3 x NumPy and pandas, ahead of Polars)",
        ["x Polars", "x pandas"],
    ),
    (
        ("relatives",),
        "Relatives (goal: ahead of every peer)",
        [],
    ),
]


def with_dtype(r: Row) -> str:
    return f"`{r['name']}`, {r['dtype']}"


def with_size(r: Row) -> str:
    return f"`{r['name']}`, {size(r['n'])}"


def sorting_memory(rows: list[Row]) -> str:
    lines = [
        [
            with_size(r),
            "" if r["bytes"] is None else f"{r['bytes'] / 2**20:,.1f}",
            "" if r["bytes"] is None else f"{r['bytes'] / (8 * r['n']):.3f}",
            f"{r['numpy_bytes'] / 2**20:,.1f}" if "numpy_bytes" in r else "",
            absent(r) or met(r["met"]),
        ]
        for r in rows
    ]
    return table(["", "MiB", "of the array", "NumPy's MiB", "met"], lines)


def sorting_page(kind_of_cpu: str) -> str:
    facts, rows = load("sorting/" + kind_of_cpu)
    kind = {what: [r for r in rows if r["what"] == what] for what in SORTING_PARTS}
    said = []
    for parts, text, more in SORTING_TABLES:
        own = [r for what in parts for r in kind[what]]
        heads = [(head, head) for head in ("x NumPy", "x best peer", *more)]
        if own:
            said.append(f"{text}:\n\n" + beside_peers(own, heads, SORTING_PEERS, with_dtype))
        bits = [r["ns"]["Polars, bits"] for r in own if "Polars, bits" in r["ns"]]
        if bits:
            said.append(
                "Polars and pyarrow keep a bool in a bit. Their times include making NumPy's\n"
                f"bytes of it; Polars alone takes {milliseconds(bits[0])} ms.\n"
            )
    if kind["small"]:
        said.append(
            "Small arrays: what pyblitz adds to NumPy's time (goal: at most 1.5 us):\n\n"
            + small_table(kind["small"], with_size)
        )
    if kind["memory"]:
        said.append(
            "Memory at the peak of a sort in place, beside the array (goal: less than as much\n"
            "again and 16 MiB):\n\n" + sorting_memory(kind["memory"])
        )
    with_goals = [r for r in rows if r["goals"]]
    fulfilled = [r for r in with_goals if r["met"]]
    versions = ", ".join(f"{name} {version}" for name, version in facts["peers"].items())
    return (
        "\n## Sorting\n\n"
        "Two threads for everyone, the same arrays in one process in turn; medians (a peer that\n"
        "takes longer than a second has one run). A ratio is the other's time over pyblitz's;\n"
        "NumPy is a peer too. Rayon (`par_sort_unstable`), TBB (`parallel_sort`) and libstdc++'s\n"
        "parallel mode (`__gnu_parallel::sort`) sort in place, so that a copy is made for them,\n"
        "as for NumPy and pyblitz. Bold: not as good as the goal.\n"
        + machine(facts)
        + f"\nPeers: {versions}.\n\n"
        + "![Time of one element by the number of elements: par_sort of random int64]"
        + f"(sorting-{kind_of_cpu}.svg)\n\n"
        + f"{len(fulfilled)} of {len(with_goals)} rows meet their goals.\n\n"
        + "\n".join(said)
        + "\nWhere pyblitz loses, also where that is no goal:\n\n"
        + losses(rows, SORTING_PARTS, [what for what in kind if what not in ("small", "memory")])
    )


def models_table(rows: list[Row]) -> str:
    shown = []
    for model in sorted({row["model"] for row in rows}):
        mine = [row for row in rows if row["model"] == model]
        holding = [row for row in mine if not row["mutation"]]
        harmful = [row for row in mine if row["mutation"] and row["broken"]]
        missed = [row for row in mine if not row["as_expected"]]
        shown.append(
            [
                model,
                f"{len(holding)}",
                f"{sum(row['states'] for row in holding):,}",
                f"{max(row['states'] for row in holding):,}",
                f"{len(harmful)}",
                f"{len(missed)}",
            ]
        )
    head = ["model", "sizes", "states, all", "states, largest", "mutations caught", "unexpected"]
    return table(head, shown)


def orders_tables(rows: list[Row]) -> str:
    """What tests/model/c11 explored: scenarios by protocol, mutations by source file."""
    scenarios = [row for row in rows if row["what"] == "scenario"]
    mutations = [row for row in rows if row["what"] == "mutation"]
    shown = []
    for protocol in sorted({row["name"].split(",")[0] for row in scenarios}):
        mine = [row for row in scenarios if row["name"].split(",")[0] == protocol]
        wholly = [row for row in mine if row["complete"] and row["preemptions"] is None]
        cut = [row for row in mine if not row["complete"]]
        shown.append(
            [
                protocol,
                f"{len(wholly)}",
                f"{len(mine) - len(wholly) - len(cut)}",
                f"{len(cut)}",
                f"{sum(row['states'] for row in mine):,}",
                f"{max(row['states'] for row in mine):,}",
                f"{sum(row['broken'] is not None for row in mine)}",
            ]
        )
    weakened = []
    for source in sorted({row["source"] for row in mutations}):
        mine = [row for row in mutations if row["source"] == source]
        noticed = [row for row in mine if row["noticed_in"] is not None]
        weakened.append(
            [
                source.removeprefix("pyblitz/"),
                f"{len(mine)}",
                f"{len(noticed)}",
                f"{len(mine) - len(noticed)}",
                f"{sum(row['states'] for row in mine):,}",
                f"{sum(not row['as_expected'] for row in mine)}",
            ]
        )
    head = ["protocol", "scenarios, every state", "few preemptions", "cut off"]
    return (
        table([*head, "states, all", "states, largest", "broken"], shown)
        + "\nEach of their memory orders weakened, each fence taken away; those that no scenario "
        "notices have a reason in `tests/model/c11/unneeded.py`:\n\n"
        + table(
            ["source", "mutations", "noticed", "with a reason", "states", "unexpected"], weakened
        )
    )


def trust_page() -> str:
    facts, rows = load("trust")
    interrupt = next(row for row in rows if row["what"] == "KeyboardInterrupt")
    failures = next(row for row in rows if row["what"] == "failures")
    soaks = [row for row in rows if row["what"] == "soak"]
    _, models = load("models")
    order_facts, orders = load("orders")
    cell_facts, cells = load("matrix") if (RESULTS / "matrix.jsonl").exists() else ({}, [])
    ran = [row for row in cells if row["passed"] is not None]
    passed = [row for row in ran if row["passed"]]
    shown = [
        [
            f"KeyboardInterrupt, worst of {interrupt['tries']} tries ({interrupt['worst_in']})",
            f"{interrupt['worst_ms']:.0f} ms (median {interrupt['median_ms']:.0f})",
            "100 ms",
            met(interrupt["worst_ms"] <= 100),
        ],
        [
            f"left behind by {failures['failures']:,} failures",
            f"{failures['bytes']:,} bytes, {max(0, failures['objects'])} objects",
            "0",
            met(failures["bytes"] <= 0 and failures["objects"] <= 0),
        ],
        *(
            [
                f"soak, {row['callers']} callers, {row['seconds']:.0f} s: lost or done twice",
                f"{row['lost_or_twice']} of {row['operations']:,} operations",
                "0",
                met(row["lost_or_twice"] == 0),
            ]
            for row in soaks
        ),
        [
            "matrix: cells passed of run",
            f"{len(passed)} of {len(ran)}; {len(cells) - len(ran)} cannot be had here",
            "all that can be had",
            met(len(passed) == len(ran)),
        ],
    ]
    return (
        "\n## Trust\n\nWhat each promise is, and how it is known: [guarantees](guarantees.md).\n"
        + machine(facts)
        + "\n\n"
        + table(["what", "measured", "goal", "met"], shown)
        + (f"\nThe matrix, {machine(cell_facts)}\n\n" if cells else "")
        + (table(["cell", "tests", "commit"], cells_of(cells)) if cells else "")
        + "\nThe models, every state visited:\n\n"
        + models_table(models)
        + "\nThe runtime's own sources under C11's memory orders "
        + f"([how](../tests/model/c11/README.md)). {machine(order_facts)}\n\n"
        + orders_tables(orders)
    )


def cells_of(cells: list[Row]) -> list[list[str]]:
    """Not all of them need be of one commit."""
    return [[r["what"], r["said"], r["commit"][:10]] for r in cells]


def enable_page() -> str:
    if not (RESULTS / "enable.jsonl").exists():
        return ""
    facts, rows = load("enable")
    contestants = ("NumPy", "enabled", "numexpr", "Numba")

    def line(r: Row) -> list[str]:
        times = r["seconds"]
        cells = [milliseconds(times[c] * 1e9) if c in times else "" for c in contestants]
        gain = f"{times['NumPy'] / times['enabled']:.2f}"
        return [*cells, gain]

    operators = [
        [f"`{r['name']}`", size(r["n"]), *line(r)] for r in rows if r["what"] == "operator"
    ]
    programs = [
        [
            r["name"],
            *line(r)[:2],
            line(r)[-1],
            f"{r['shared']} of {r['calls']}",
            "the same" if r["same"] else "others",
        ]
        for r in rows
        if r["what"] == "program"
    ]
    small = ", ".join(
        f"{r['name']} elements {r['seconds']['NumPy'] * 1e9:.0f} and "
        f"{r['seconds']['enabled'] * 1e9:.0f} ns"
        + (
            " ({NumPy:,.0f} and {enabled:,.0f} instructions)".format(**r["instructions"])
            if "instructions" in r
            else ""
        )
        for r in rows
        if r["what"] == "small"
    )
    return (
        "\n## NumPy itself: enable()\n\n"
        f"{machine(facts)}\n\n"
        "![Times as fast under enable(): operators and whole programs](enable.svg)\n\n"
        "Milliseconds, the least of the runs; two threads for everyone but NumPy. "
        "What `enable` costs where there is nothing to gain: "
        f"{small}, without and with it.\n\n"
        + table(["", "elements", *contestants, "x NumPy"], operators)
        + "\nWhole programs. `shared`: calls in which another thread took part, of those that were "
        "large enough to be looked at.\n\n"
        + table(["", "NumPy", "enabled", "x NumPy", "shared", "bits"], programs)
        + judges_table()
    )


def executors_page() -> str:
    if not (RESULTS / "executors.jsonl").exists():
        return ""
    facts, rows = load("executors")

    def part(what: str, who: tuple[str, ...]) -> str:
        lines = [
            [r["name"], *(milliseconds(r["seconds"][w] * 1e9) for w in who)]
            for r in rows
            if r["what"] == what
        ]
        return table(["", *who], lines)

    return (
        "\n## In others' pools\n\n"
        f"{machine(facts)}\n\n"
        "Milliseconds, the least of the runs, two jobs at a time. joblib's backends:\n\n"
        + part("joblib", ("pyblitz", "threading", "loky"))
        + "\n`ThreadPool` beside the standard library's, 10,000 jobs that do nothing "
        "(`chunksize` makes no difference to the latter):\n\n"
        + part("executor", ("pyblitz", "standard library"))
    )


def spinning_page(kind_of_cpu: str) -> str:
    facts, rows = load("spinning/" + kind_of_cpu)
    gaps = sorted({r["gap"] for r in rows if r["what"] == "loop"})
    loops: dict[tuple[str, int, str], dict[int, float]] = {}
    others: dict[tuple[str, str], dict[int, float]] = {}
    for r in rows:
        if r["what"] == "loop":
            loops.setdefault((r["who"], r["threads"], r["spin"]), {})[r["gap"]] = r["us"]
        elif r["what"] != "burst":
            others.setdefault((r["what"], r["spin"]), {})[r["gap"]] = r["value"]
    one, two = (loops["pyblitz", threads, "as it is"] for threads in (1, 2))
    lines = [
        [
            who if spin == "as it is" else f"{who}, PYBLITZ_SPIN={spin}",
            f"{threads}",
            *(f"{us[gap]:.1f}" for gap in gaps),
        ]
        for (who, threads, spin), us in loops.items()
    ]
    lines.append(
        ["**two threads of pyblitz, times one**", "", *(f"{one[g] / two[g]:.2f}" for g in gaps)]
    )
    alone = others["neighbour", "alone"][0]
    costs = [
        [
            "a matrix product of 300 x 300 by OpenBLAS right after such a sum, us (after NumPy's: "
            f"{others['blas', 'NumPy, as it is'][0]:.0f})",
            *(f"{others['blas', f'pyblitz, {spin}'][0]:.0f}" for spin in ("as it is", "0")),
        ],
        *(
            [
                f"a process of Python beside such a loop with gaps of {gap} us, of its speed alone",
                *(f"{others['neighbour', spin][gap] / alone:.2f}" for spin in ("as it is", "0")),
            ]
            for gap in gaps
        ),
        [
            "CPU time in the 5 s after the last call, ms",
            *(f"{others['idle', spin][0]:.2f}" for spin in ("as it is", "0")),
        ],
    ]
    return (
        "\n## Threads that wait awake\n\n"
        f"{machine(facts)}\n\n"
        "Microseconds, medians: a sum of 10^5 doubles, called in a loop, with so many microseconds "
        "of Python between two calls (goal: 1.7 times one thread without a gap: "
        f"{met(one[0] / two[0] >= 1.7)}):\n\n"
        + table(["", "threads", *(f"{gap} us" for gap in gaps)], lines)
        + "\nWhat that costs others, as it is and with `PYBLITZ_SPIN=0` (goal: less than 1 ms of "
        f"CPU time when idle: {met(others['idle', 'as it is'][0] < 1)}):\n\n"
        + table(["", "as it is", "without"], costs)
        + bursts_table([r for r in rows if r["what"] == "burst"])
    )


def bursts_table(rows: list[Row]) -> str:
    if not rows:
        return ""
    sizes = sorted({r["items"] for r in rows})
    head = [f"2^{n.bit_length() - 1}, {which}" for n in sizes for which in ("first", "later")]
    found = {(r["who"], r["items"]): r for r in rows}
    lines = [
        [who, *(f"{found[who, n][which]:.0f}" for n in sizes for which in ("first", "later"))]
        for who in dict.fromkeys(r["who"] for r in rows)
    ]
    return (
        "\nMicroseconds of a sum of so many doubles, 16 times after 10 ms without any: the first,\n"
        "and the median of the later ones:\n\n" + table(["", *head], lines)
    )


def free_threaded_page() -> str:
    if not (RESULTS / "free_threaded.jsonl").exists():
        return ""
    facts, rows = load("free_threaded")
    who = ("one thread", "two threads", "plain loop", "standard library")
    lines = [
        [
            r["name"],
            *(milliseconds(r["seconds"][w] * 1e9) for w in who),
            f"{r['seconds']['one thread'] / r['seconds']['two threads']:.2f}",
        ]
        for r in rows
    ]
    return (
        "\n## Python functions without a GIL\n\n"
        f"{machine(facts)}\n\n"
        f"Milliseconds, the least of the runs, for {rows[0]['items']:,} calls of one pure Python "
        "function in free-threaded Python. `standard library`: its pool of two threads, 125 calls "
        "to a chunk.\n\n" + table(["", *who, "gain"], lines)
    )


def distributed_page() -> str:
    if not (RESULTS / "clusters.jsonl").exists():
        return ""
    facts, rows = load("clusters")
    of = {what: [r for r in rows if r["what"] == what] for what in {r["what"] for r in rows}}

    def time(seconds: float) -> str:
        return f"{seconds:.2f}"

    contestants = ("pyblitz", "dask.dataframe", "gathered")
    sorts = [
        [
            r["name"],
            *(time(r["seconds"][who]) for who in contestants),
            *(f"{r['shares'][who]:.2f}" for who in contestants[:2]),
        ]
        for r in of["sort"]
    ]
    blocks = [r["blocks"] for r in of["growth"] if r["workers"] == 1]
    growth = [
        [
            f"{workers} worker{'s' * (workers > 1)}",
            *(time(r["seconds"]["pyblitz"]) for r in of["growth"] if r["workers"] == workers),
        ]
        for workers in (1, 2)
    ]
    (top,), (killed,), (memory,) = of["topk"], of["killed"], of["memory"]
    others = [
        [f"{r['what']}, {r['name']} different", *map(time, r["seconds"].values())]
        for what in ("unique", "bincount", "histogram", "searchsorted", "percentiles")
        for r in of.get(what, ())
    ]
    beside = (
        "\nThe same number of integers, up to a thousand different ones or all. Percentiles are "
        "those of a sort; dask's are approximate:\n\n"
    )
    none = "none" if memory["none killed"] else "some"
    return (
        "\n## More than one process: dask\n\n"
        f"{machine(facts)}\n\n"
        f"Seconds for {of['sort'][0]['n']:,} doubles in 20 blocks, in two workers of one thread; "
        "`gathered` is np.sort in one worker. Shares: the greatest block of the result, of the "
        "mean.\n\n"
        + table(["", *contestants, "share, pyblitz", "share, dask.dataframe"], sorts)
        + "\nThe random ones, by the number of blocks:\n\n"
        + table(["", *map(str, blocks)], growth)
        + (beside + table(["", "pyblitz", "dask.array"], others) if others else "")
        + f"\nThe 100 greatest: {time(top['seconds']['pyblitz'])} s, "
        f"`da.topk` {time(top['seconds']['dask'])} s. "
        f"{killed['n']:,} doubles in three workers: {time(killed['seconds']['undisturbed'])} s, "
        f"and {time(killed['seconds']['killed'])} s when one is killed half way. "
        f"{memory['n'] * 8 / 1e9:.0f} GB under four workers of 400 MB: "
        f"{time(memory['seconds']['pyblitz'])} s, {memory['most'] / 1e6:.0f} MB the most that a "
        f"worker took, {none} killed.\n"
    )


def judges_table() -> str:
    """Others' own tests."""
    if not (RESULTS / "judges.jsonl").exists():
        return ""
    facts, rows = load("judges")
    lines = [
        [
            f"{r['what']} {r['version']}",
            f"{r['plain']:,}",
            f"{r['enabled']:,}" if "enabled" in r else "",
            f"{r['forced']:,}" if "forced" in r else "",
            f"{r['namespace']:,}" if "namespace" in r else "",
            str(len({test for key in r if key.startswith("only ") for test in r[key]})),
        ]
        for r in rows
    ]
    return (
        "\nOthers' own tests: how many passed without pyblitz, under `enable`, with every "
        "call shared from one element on, and so with `pyblitz.numpy` in the place of `numpy`; and "
        "how many fail only with pyblitz without an excuse "
        f"({machine(facts)}).\n\n"
        + table(["", "without", "enabled", "forced", "namespace", "fail only with it"], lines)
    )


def page() -> str:
    return (
        INTRODUCTION
        + by_processor()
        + counts_page()
        + enable_page()
        + executors_page()
        + free_threaded_page()
        + distributed_page()
        + trust_page()
    )


# ---- of each kind of processor ----------------------------------------------

# What is measured on each of them, in the order of its page.
SECTIONS: dict[str, Callable[[str], str]] = {
    "scheduler": scheduler_page,
    "arrays": arrays_page,
    "library": library_page,
    "sorting": sorting_page,
    "spinning": spinning_page,
}
OF_ONE_KIND = """\
# Figures of {kind}

What the benchmarks measured last on this kind of processor, beside what was aimed at; it says
something about no other. [Figures](figures.md) has all kinds. Written by
`python benchmarks/figures.py`. Runs are taken in turn; each section says whether it shows medians
or least times. A ratio above 1 means that pyblitz is faster.
"""


def kinds_with(name: str) -> list[str]:
    return sorted(path.stem for path in (RESULTS / name).glob("*.jsonl"))


def kinds() -> list[str]:
    return sorted({kind for name in SECTIONS for kind in kinds_with(name)})


def goals_met(name: str, kind: str) -> str:
    if kind not in kinds_with(name):
        return "not measured"
    said = [r for r in load(f"{name}/{kind}")[1] if r["goals"]]
    return f"{sum(r['met'] for r in said)} of {len(said)}"


def geometric_means(kind: str) -> str:
    if kind not in kinds_with("never_slower"):
        return "not measured"
    rows = load(f"never_slower/{kind}")[1]
    ways = {(r["level"], r["threads"]) for r in rows}
    means = [
        never_slower.geometric_mean(
            never_slower.ratios([r for r in rows if (r["level"], r["threads"]) == way])
        )
        for way in ways
    ]
    return f"{min(means):.2f} to {max(means):.2f}"


def plain_sorts(kind: str) -> list[str]:
    """From the least to the greatest of NumPy's time over pyblitz's, of four dtypes."""
    rows = load("sorting/" + kind)[1]

    def span(what: str, name: str, least: float, most: float) -> str:
        found = [
            r["ratio_numpy"]
            for r in rows
            if (r["what"], r["name"]) == (what, name) and least <= r["n"] <= most
        ]
        return f"{min(found):.2f} to {max(found):.2f}"

    return [
        kind,
        span("random", "par_sort(a)", 1e3, 1e4),
        span("random", "par_sort(a)", 1e5, 1e8),
        span("held", "one thread", 1e3, 1e7),
        span("held", "par_sort(a)", 1e5, 1e7),
    ]


def by_processor() -> str:
    lines = [
        [
            f"[{kind}](figures-{kind}.md)",
            goals_met("sorting", kind),
            goals_met("library", kind),
            geometric_means(kind),
        ]
        for kind in kinds()
    ]
    return (
        "\n## By processor\n\n"
        "Times are true of the processor that they were measured on. Each kind that\n"
        "benchmarks were run on has a page: the scheduler, arrays, pipelines and reductions,\n"
        "sorting, and threads that wait awake. [Never slower](never-slower.md) has what NumPy\n"
        "has, or can do in some lines, beside it, also on a Zen 5. Here: how many rows\n"
        "meet the goals of the sorts and of the others, and the geometric means of NumPy's time\n"
        "over pyblitz's, of all functions and sizes, at each level and number of threads.\n\n"
        + table(["", "sorting", "library", "never slower"], lines)
        + "\nPlain sorts of random int64, float64, int32 and float32, NumPy's time over\n"
        "pyblitz's, from the worst to the best row; up to 10^4 both use one thread. Then the same\n"
        "with NumPy held to AVX2, as on most laptops and older servers:\n\n"
        + table(
            [
                "",
                "10^3, 10^4",
                "10^5 to 10^8, two threads",
                "AVX2: 10^3 to 10^7, one thread",
                "AVX2: 10^5 to 10^7, two threads",
            ],
            [plain_sorts(kind) for kind in kinds_with("sorting")],
        )
    )


def kind_page(kind: str) -> str:
    return OF_ONE_KIND.format(kind=kind) + "".join(
        section(kind) for name, section in SECTIONS.items() if kind in kinds_with(name)
    )


def kind_pages() -> dict[pathlib.Path, str]:
    written = {DOCS / f"figures-{kind}.md": kind_page(kind) for kind in kinds()}
    for kind in kinds_with("library"):
        written[DOCS / f"library-{kind}.svg"] = library_chart.draw(load(f"library/{kind}")[1])
    for kind in kinds_with("sorting"):
        written[DOCS / f"sorting-{kind}.svg"] = sorting_chart.draw(load(f"sorting/{kind}")[1])
    return written


SCALE = """\
# Scale

What to expect of more CPUs than the two that pyblitz is measured on. The scheduler's
policies are simulated ([how](../benchmarks/simulate/README.md)): a model of its steps, each
at its own price, compared with what was measured (least times), then run with up to 1,024
workers. The table of prices says of each whether it was measured here, was published for the
machine, or is an estimate; none is fitted to a row that the model has to predict. Beyond the
64 cores of the published machine the curves show where the policies give out, not what a
machine would do.

![Speed-up curves of five workloads](simulate.svg)

What the simulation decided for up to 64 workers (the tables below are from the last run, in
ratios of times: below 1 the other policy is faster):

- **A waiting worker leapfrogs**, it does not take any job. Any job would be faster on
  unbalanced trees, and slower on many small calls and with many workers; it runs strangers'
  work under the waiter's locks, on stacks many times as deep. So it stays as it is.
- **Victims are visited from a random start**, not the nearest first, and **a poster wakes one
  worker**, which wakes the next if it finds more: no difference.
- **Joins are lazy or eager as the author says**: lazy ones are a little faster up to 64
  workers; far beyond, one fork shown at a time feeds too few.

To do, in this order: a waiter that also follows the forks that its thief waits for ("along
the chain", up to a fifth on unbalanced trees; the safe way to read them is not designed);
more than one lazy fork shown while many are hungry; counters in more than one word, which
many small calls from many workers fight for: that is why their curve sinks.

Written by `python benchmarks/figures.py`.
"""


def priced(rows: list[Row], titles: Mapping[str, str]) -> str:
    """How many prices are measured, published and estimated, for each machine."""
    said = []
    for name in dict.fromkeys(r["machine"] for r in rows if r["what"] == "cost"):
        own = [r["source"] for r in rows if r["what"] == "cost" and r["machine"] == name]
        words = {
            costs.MEASURED: "measured here",
            costs.PUBLISHED: "published",
            costs.ESTIMATE: "estimated",
        }
        counts = {word: sum(s.startswith(kind) for s in own) for kind, word in words.items()}
        counted = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        said.append(f"- {titles[name]}: of {len(own)} prices {counted}.\n")
    return "".join(said)


def scale_pages() -> tuple[str, str]:
    """The page and its chart."""
    facts, rows = load("simulate")
    machines = {name: make(RESULTS) for name, make in costs.MACHINES.items()}
    titles = {name: m.title for name, m in machines.items()}
    curves = [row for row in rows if row["what"] == "curve"]
    predicted = [r for r in rows if r["what"] == "validation" and r["kind"] != "input"]
    off = [r for r in predicted if r["within"] is False]
    misses = ", ".join(f"{r['row']} ({r['threads']} threads, {r['ratio']:.2f})" for r in off)
    said = (
        f"Of {len([r for r in predicted if r['within'] is not None])} predicted rows {len(off)} "
        f"are off by more than 15 %: {misses}. Of the system only the prices below are modelled, "
        "not where it puts a woken thread.\n"
    )
    return (
        f"{SCALE}{machine(facts)}\n\n{priced(rows, titles)}\n{said}\n{report.page(rows, titles)}",
        chart.draw(curves, machines),
    )


NEVER_SLOWER = """\
# Never slower than NumPy?

Functions that have a namesake in NumPy, or some lines of NumPy that do the same, beside it (a
`par_for` has none): with arrays of 8 to millions of elements of four types, some functions also of
bools and bytes (since 2026-11-24), on one thread and on two, at each of the levels of vector
instructions for which NumPy has kernels (`v4`: AVX-512, `v3`: AVX2, `v2`: neither), of which it was
held to the lower ones. Least times, in turn. A cell is red where NumPy's time over ours is below
0.95 and ours is also more than 1.5 us longer: those are what is left to do.

Written by `python benchmarks/figures.py` from what `python benchmarks/never_slower.py` measured.
It says something about the processors that are named here, and about no other.
"""


def never_slower_section(facts: Row, rows: list[Row], picture: str) -> str:
    ways = []
    for level in never_slower.LEVELS:
        for threads in never_slower.THREADS:
            here = [r for r in rows if (r["level"], r["threads"]) == (level, threads)]
            if here:
                cells = never_slower.ratios(here)
                ways.append(
                    [
                        level,
                        str(threads),
                        f"{never_slower.geometric_mean(cells):.2f}",
                        f"{len(never_slower.red_cells(here)):,} of {len(cells):,}",
                    ]
                )
    reds = never_slower.red_cells(rows)
    worst: dict[str, Row] = {}
    for cell in reds:
        worst.setdefault(cell["name"], cell)
    losses = [
        [
            name,
            f"{sum(c['name'] == name for c in reds):,}",
            f"{c['dtype']}, 2^{c['size']}, {c['level']}, {c['threads']}",
            f"{c['numpy'] / 1e3:,.1f}",
            f"{c['ours'] / 1e3:,.1f}",
            f"{c['numpy'] / c['ours']:.2f}",
        ]
        for name, c in worst.items()
    ]
    head = ["function", "red cells", "the worst: type, items, level, threads"]
    return "\n".join(
        [
            f"## {facts['cpu_kind']}\n",
            f"{machine(facts)}\n",
            f"Sizes: the powers of two up to 2^{never_slower.LEAST + len(rows[0]['ours']) - 1}.\n",
            table(["level", "threads", "NumPy over ours, geometric mean", "red cells"], ways),
            f"![A heat map of NumPy's time over ours]({picture})\n",
            table([*head, "NumPy, us", "ours, us", "ratio"], losses),
        ]
    )


def never_slower_pages() -> dict[pathlib.Path, str]:
    """The page and a picture of each kind of processor."""
    found: dict[pathlib.Path, str] = {}
    sections = []
    for kind in kinds_with("never_slower"):
        facts, rows = load(f"never_slower/{kind}")
        picture = f"never-slower-{kind}.svg"
        found[DOCS / picture] = never_slower_chart.draw(rows, facts["cpu_kind"])
        sections.append(never_slower_section(facts, rows, picture))
    if sections:
        found[DOCS / "never-slower.md"] = "\n".join([NEVER_SLOWER, *sections])
    return found


def pages() -> dict[pathlib.Path, str]:
    """Everything that this program writes."""
    scale, picture = scale_pages()
    written = {
        DOCS / "figures.md": page(),
        DOCS / "scale.md": scale,
        DOCS / "simulate.svg": picture,
    }
    if (RESULTS / "enable.jsonl").exists():
        written[DOCS / "enable.svg"] = enable_chart.draw(load("enable")[1])
    return written | kind_pages() | never_slower_pages()


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
        print(f"written: {path}")
