"""python benchmarks/simulate/chart.py [docs/simulate.svg]: draws the curves of simulate.jsonl.

Speed-up over workers, both axes logarithmic, one panel for each machine.  The picture takes its
colours from the reader's light or dark mode.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import sys
from html import escape

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from simulate import costs  # noqa: E402
from simulate.costs import Row  # noqa: E402
from simulate.workloads import FIVE  # noqa: E402

# Of each curve, on light and on dark ground.
COLOURS = [
    ("#0b62a8", "#6cb6ff"),
    ("#b4460f", "#ff9d5c"),
    ("#0a7a52", "#4cd6a3"),
    ("#8a2f8f", "#e08fe8"),
    ("#7a6200", "#e3c64a"),
]
MARKS = ["circle", "square", "diamond", "up", "down"]
PANEL, HEIGHT, LEFT, TOP, LABELS, GAP = 330, 330, 52, 64, 128, 26
TICKS = [1, 4, 16, 64, 256, 1024]


def style() -> str:
    light = [".ink{fill:#24292f}.soft{fill:#57606a}.grid{stroke:#d0d7de}.ideal{stroke:#57606a}"]
    dark = [".ink{fill:#e6edf3}.soft{fill:#9aa4af}.grid{stroke:#3a424b}.ideal{stroke:#9aa4af}"]
    for i, pair in enumerate(COLOURS):
        light.append(f".c{i}{{stroke:{pair[0]}}}.f{i}{{fill:{pair[0]}}}")
        dark.append(f".c{i}{{stroke:{pair[1]}}}.f{i}{{fill:{pair[1]}}}")
    return (
        "text{font:12px system-ui,-apple-system,'Segoe UI',sans-serif}"
        ".title{font-size:13px;font-weight:600}.line{fill:none;stroke-width:2}"
        ".grid{stroke-width:1}.ideal{stroke-dasharray:5 4;stroke-width:1.2;fill:none}"
        ".real{stroke-dasharray:2 3}"
        + "".join(light)
        + "@media (prefers-color-scheme:dark){"
        + "".join(dark)
        + "}"
    )


def mark(kind: str, x: float, y: float, css: str) -> str:
    points: dict[str, list[tuple[float, float]]] = {
        "square": [(-3, -3), (3, -3), (3, 3), (-3, 3)],
        "diamond": [(0, -4), (4, 0), (0, 4), (-4, 0)],
        "up": [(0, -4), (3.6, 3), (-3.6, 3)],
        "down": [(0, 4), (3.6, -3), (-3.6, -3)],
    }
    if kind == "circle":
        return f'<circle class="{css}" cx="{x:.1f}" cy="{y:.1f}" r="3.2"/>'
    path = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in points[kind])
    return f'<polygon class="{css}" points="{path}"/>'


def spread(wanted: list[float], apart: float, low: float, high: float) -> list[float]:
    """Places for labels near where they are wanted, at least ``apart`` from each other."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    places = [0.0] * len(wanted)
    at = low
    for i in order:
        places[i] = at = max(wanted[i], at)
        at += apart
    at = high
    for i in reversed(order):
        places[i] = at = min(places[i], at)
        at -= apart
    return places


def panel(rows: list[Row], machine: costs.Machine, left: float) -> list[str]:
    top = max(TICKS)

    def x(workers: float) -> float:
        return left + PANEL * math.log2(workers) / math.log2(top)

    def y(speed: float) -> float:
        return TOP + HEIGHT * (1 - math.log2(max(speed, 0.9)) / math.log2(top))

    out = [f'<text class="ink title" x="{left}" y="{TOP - 26}">{escape(machine.title)}</text>']
    for tick in TICKS:
        out.append(f'<path class="grid" d="M{left} {y(tick):.1f}h{PANEL}"/>')
        out.append(f'<path class="grid" d="M{x(tick):.1f} {TOP}v{HEIGHT}"/>')
        out.append(
            f'<text class="soft" text-anchor="end" x="{left - 8}" y="{y(tick) + 4:.1f}">'
            f"{tick}</text>"
        )
        out.append(
            f'<text class="soft" text-anchor="middle" x="{x(tick):.1f}" y="{TOP + HEIGHT + 18}">'
            f"{tick}</text>"
        )
    out.append(
        f'<text class="soft" text-anchor="middle" x="{left + PANEL / 2:.1f}" '
        f'y="{TOP + HEIGHT + 38}">workers</text>'
    )
    out.append(f'<path class="ideal" d="M{x(1):.1f} {y(1):.1f}L{x(top):.1f} {y(top):.1f}"/>')
    out.append(
        f'<text class="soft" text-anchor="end" x="{x(900):.1f}" y="{y(860):.1f}" '
        f'dx="-14">ideal</text>'
    )
    real = x(machine.cores)
    out.append(f'<path class="ideal real" d="M{real:.1f} {TOP}v{HEIGHT}"/>')
    out.append(
        f'<text class="soft" text-anchor="middle" x="{real:.1f}" y="{TOP - 7}">'
        f"{machine.cores} cores</text>"
    )
    titles = list(dict.fromkeys(r["workload"] for r in rows))[: len(FIVE)]
    ends = []
    for i, title in enumerate(titles):
        line = sorted((r["workers"], r["speedup"]) for r in rows if r["workload"] == title)
        points = [(x(n), y(s)) for n, s in line]
        path = "L".join(f"{px:.1f} {py:.1f}" for px, py in points)
        out.append(f'<path class="line c{i}" d="M{path}"/>')
        out += [mark(MARKS[i], px, py, f"f{i}") for px, py in points]
        ends.append((points[-1], line[-1][1]))
    places = spread([py for (_, py), _ in ends], 16, TOP + 4, TOP + HEIGHT)
    for i, (((px, py), speed), place) in enumerate(zip(ends, places, strict=True)):
        out.append(
            f'<path class="line c{i}" style="stroke-width:.8" d="M{px + 4:.1f} {py:.1f}'
            f'L{px + 14:.1f} {place:.1f}"/>'
        )
        out.append(
            f'<text class="f{i}" x="{px + 17:.1f}" y="{place + 4:.1f}">'
            f"{escape(titles[i])} {speed:.3g}</text>"
        )
    return out


def draw(rows: list[Row], machines: dict[str, costs.Machine]) -> str:
    names = list(dict.fromkeys(r["machine"] for r in rows))
    step = LEFT + PANEL + LABELS + GAP
    width, height = step * len(names), TOP + HEIGHT + 52
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-labelledby="t d">',
        '<title id="t">Simulated speed-up up to 1,024 workers</title>',
        '<desc id="d">Logarithmic axes; one panel for each machine; the number behind a name is '
        "the speed-up with the most workers.</desc>",
        f"<style>{style()}</style>",
        '<text class="ink title" x="8" y="18">Simulated speed-up over the plain code</text>',
    ]
    for i, name in enumerate(names):
        own = [r for r in rows if r["machine"] == name]
        out += panel(own, machines[name], LEFT + i * step)
    return "\n".join([*out, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws the curves.")
    parser.add_argument("output", nargs="?", default=HERE.parent.parent / "docs" / "simulate.svg")
    parser.add_argument("--input", default=costs.RESULTS / "simulate.jsonl", type=pathlib.Path)
    options = parser.parse_args()
    lines = [json.loads(line) for line in options.input.read_text().splitlines()[1:]]
    rows = [row for row in lines if row["what"] == "curve"]
    machines = {name: make() for name, make in costs.MACHINES.items()}
    pathlib.Path(options.output).write_text(draw(rows, machines))


if __name__ == "__main__":
    main()
