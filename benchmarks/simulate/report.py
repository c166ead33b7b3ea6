"""Tables, in Markdown, from the rows that run.py writes: nothing here is typed in by hand."""

from __future__ import annotations

import math
from collections.abc import Iterable

from simulate.costs import Row

REAL = 64  # workers that the published machine really has
BETTER, WORSE = 0.97, 1.05


def table(head: list[str], lines: Iterable[list[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def mean(values: list[float]) -> float:
    """Geometric."""
    return math.exp(sum(map(math.log, values)) / len(values))


def validation(rows: list[Row]) -> str:
    """Simulated beside measured."""
    lines = []
    for row in rows:
        if row["what"] != "validation":
            continue
        within = {None: "not measured", True: "yes", False: "**no**"}[row["within"]]
        if row["kind"] == "input" and row["within"] is not None:
            within = "input"
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
        lines.append(
            [
                row["row"],
                str(row["threads"]),
                row["unit"],
                number(row["simulated"]),
                number(row["measured"]),
                ratio,
                within,
                row["note"],
            ]
        )
    head = ["row", "threads", "unit", "simulated", "measured", "ratio", "within 15 %", ""]
    return table(head, lines)


def prices(rows: list[Row], titles: dict[str, str]) -> str:
    """What the simulated steps cost, by machine, and where each number comes from."""
    found = [row for row in rows if row["what"] == "cost"]
    machines = list(dict.fromkeys(row["machine"] for row in found))
    by = {(row["machine"], row["name"]): row for row in found}
    lines = []
    for name in dict.fromkeys(row["name"] for row in found):
        line = [f"`{name}`", "", ""]
        for machine in machines:
            row = by[machine, name]
            line[1:3] = [row["meaning"], row["unit"]]
            values = row["ns"] if isinstance(row["ns"], list) else [row["ns"]]
            line.append(" / ".join(number(value) for value in dict.fromkeys(values)))
            line.append(row["source"])
        lines.append(line)
    head = ["cost", "of", "unit"]
    for machine in machines:
        head += [titles.get(machine, machine), "source"]
    return table(head, lines)


def curves(rows: list[Row], machine: str) -> str:
    """Speed-up over the plain code, by workload and workers."""
    found = [r for r in rows if r["what"] == "curve" and r["machine"] == machine]
    workers = sorted({r["workers"] for r in found})
    lines = []
    for name in dict.fromkeys(r["workload"] for r in found):
        by = {r["workers"]: r["speedup"] for r in found if r["workload"] == name}
        lines.append([name, *(number(by.get(n)) for n in workers)])
    return table(["workers", *map(str, workers)], lines)


def policies(rows: list[Row]) -> str:
    """Time with the other policy over time with the runtime's own: below 1 is better."""
    found = [r for r in rows if r["what"] == "policy"]
    workers = sorted({r["workers"] for r in found})
    lines = []
    for policy, workload in dict.fromkeys((r["policy"], r["workload"]) for r in found):
        by = {
            r["workers"]: r["ratio"]
            for r in found
            if r["policy"] == policy and r["workload"] == workload
        }
        cells = [f"{by[n]:.2f}" if n in by else "" for n in workers]
        lines.append([policy, workload, *cells])
    return table(["instead", "workload", *(f"P = {n}" for n in workers)], lines)


def verdict(ratios: list[float]) -> str:
    if not ratios:
        return "-"
    if mean(ratios) <= BETTER and max(ratios) <= WORSE:
        return "better"
    if mean(ratios) <= BETTER:
        return "better, but not everywhere"
    if mean(ratios) >= 1 / BETTER:
        return "worse"
    return "no difference"


def decisions(rows: list[Row]) -> str:
    """What the comparison says of each policy, up to REAL workers and beyond."""
    found = [r for r in rows if r["what"] == "policy"]
    lines = []
    for policy in dict.fromkeys(r["policy"] for r in found):
        own = [r for r in found if r["policy"] == policy]
        line = [policy]
        for part in (
            [r for r in own if r["workers"] <= REAL],
            [r for r in own if r["workers"] > REAL],
        ):
            ratios = [r["ratio"] for r in part]
            line.append(f"{mean(ratios):.2f}" if ratios else "-")
            worst = max(part, key=lambda r: r["ratio"], default=None)
            line.append(
                f"{worst['ratio']:.2f} ({worst['workload']}, {worst['workers']})" if worst else "-"
            )
            line.append(verdict(ratios))
        deepest = max(own, key=lambda r: r["stack"] / max(1, r["own_stack"]))
        line.append(f"{deepest['stack'] / max(1, deepest['own_stack']):.1f}")
        line.append(own[0]["note"])
        lines.append(line)
    head = [
        "instead",
        f"mean to P = {REAL}",
        "worst",
        "verdict",
        "mean beyond",
        "worst",
        "verdict",
        "deepest stack, times",
        "",
    ]
    return (
        f"Ratios of times; a policy is *better* if its mean is at most {BETTER} and no workload "
        f"takes more than {WORSE} times as long, *worse* if its mean is at least "
        f"{1 / BETTER:.2f}.\n\n" + table(head, lines)
    )


def page(rows: list[Row], titles: dict[str, str]) -> str:
    parts = []
    if any(r["what"] == "cost" for r in rows):
        parts.append("## Prices of the steps\n\n" + prices(rows, titles))
    parts.append("## Simulated and measured\n\n" + validation(rows))
    for name in dict.fromkeys(r["machine"] for r in rows if r["what"] == "curve"):
        parts.append(f"## Speed-up: {titles.get(name, name)}\n\n" + curves(rows, name))
    if any(r["what"] == "policy" for r in rows):
        machine = next(r["machine"] for r in rows if r["what"] == "policy")
        parts.append(f"## Policies: {titles.get(machine, machine)}\n\n" + policies(rows))
        parts.append("## What it decided\n\n" + decisions(rows))
    return "\n".join(parts)
