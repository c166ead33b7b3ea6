"""Draws the results of library.py; figures.py calls it.

Nanoseconds of one element over the number of elements, both axes logarithmic, for the
expression and for the sum.  The picture takes its colours from the reader's light or dark mode.
"""

from __future__ import annotations

import math
import pathlib
import sys
from collections.abc import Sequence
from html import escape
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE))

from simulate.chart import mark, spread  # noqa: E402

Row = dict[str, Any]
Point = tuple[int, float]
Who = dict[str, tuple[str, str, str]]

# Of each line, on light and on dark ground, and the marks on it.
WHO: Who = {
    "pyblitz": ("#0b62a8", "#6cb6ff", "circle"),
    "NumPy": ("#57606a", "#9aa4af", "square"),
    "numexpr": ("#b4460f", "#ff9d5c", "diamond"),
    "Numba": ("#0a7a52", "#4cd6a3", "up"),
    "torch": ("#8a2f8f", "#e08fe8", "down"),
    "Polars": ("#7a6200", "#e3c64a", "square"),
    "dask": ("#a3243b", "#ff8095", "diamond"),
}
# What of the rows: (what, name, dtype); and the title.
PANELS = [
    (("expression", "a*b + np.sin(a)*2 - b**2", "float64"), "a*b + np.sin(a)*2 - b**2, float64"),
    (("reduction", "par_sum", "float64"), "sum of a, float64"),
]
WIDTH, HEIGHT, LEFT, TOP, LABELS, GAP = 330, 330, 52, 64, 128, 26
ABOVE = 15  # times pyblitz's slowest: what takes longer leaves the picture at the top


def style(who: Who) -> str:
    light = [".ink{fill:#24292f}.soft{fill:#57606a}.grid{stroke:#d0d7de}"]
    dark = [".ink{fill:#e6edf3}.soft{fill:#9aa4af}.grid{stroke:#3a424b}"]
    for i, (day, night, _) in enumerate(who.values()):
        light.append(f".c{i}{{stroke:{day}}}.f{i}{{fill:{day}}}")
        dark.append(f".c{i}{{stroke:{night}}}.f{i}{{fill:{night}}}")
    return (
        "text{font:12px system-ui,-apple-system,'Segoe UI',sans-serif}"
        ".title{font-size:13px;font-weight:600}.line{fill:none;stroke-width:1.6}"
        ".c0.line{stroke-width:3}text.f0{font-weight:600}.thin{fill:none;stroke-width:.8}"
        ".grid{stroke-width:1}"
        + "".join(light)
        + "@media (prefers-color-scheme:dark){"
        + "".join(dark)
        + "}"
    )


def curves(rows: list[Row], which: tuple[str, str, str], names: Who) -> dict[str, list[Point]]:
    """(n, nanoseconds of an element) of everyone who was there; Polars: the faster way."""
    found: dict[str, list[Point]] = {}
    for r in rows:
        if (r["what"], r["name"], r["dtype"]) != which:
            continue
        for who in names:
            ns = [r["ns"][k] for k in (who, f"{who}, streaming") if k in r["ns"]]
            if ns:
                found.setdefault(who, []).append((r["n"], min(ns) / r["n"]))
    return {who: sorted(points) for who, points in found.items()}


def ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten between."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [t for t in (m * 10.0**p for p in powers for m in (1, 2, 5)) if low <= t <= high]


def panel(lines: dict[str, list[Point]], title: str, left: float, names: Who) -> list[str]:
    sizes = sorted({n for points in lines.values() for n, _ in points})
    times = [ns for points in lines.values() for _, ns in points]
    reference = lines.get("pyblitz") or lines.get("NumPy") or [(1, max(times))]
    low = min(times) / 1.3
    high = min(max(times), ABOVE * max(ns for _, ns in reference)) * 1.3
    decades = max(1.0, math.log10(sizes[-1] / sizes[0]))

    def x(n: float) -> float:
        return left + WIDTH * math.log10(n / sizes[0]) / decades

    def y(ns: float) -> float:
        return TOP + HEIGHT * (1 - math.log10(ns / low) / math.log10(high / low))

    out = [f'<text class="ink title" x="{left}" y="{TOP - 14}">{escape(title)}</text>']
    for tick in ticks(low, high):
        out.append(f'<path class="grid" d="M{left} {y(tick):.1f}h{WIDTH}"/>')
        out.append(
            f'<text class="soft" text-anchor="end" x="{left - 8}" y="{y(tick) + 4:.1f}">'
            f"{tick:g}</text>"
        )
    for n in sizes:
        power = round(math.log10(n))
        out.append(f'<path class="grid" d="M{x(n):.1f} {TOP}v{HEIGHT}"/>')
        out.append(
            f'<text class="soft" text-anchor="middle" x="{x(n):.1f}" y="{TOP + HEIGHT + 18}">10'
            f'<tspan dy="-5" style="font-size:9px">{power}</tspan></text>'
        )
    out.append(
        f'<text class="soft" text-anchor="middle" x="{left + WIDTH / 2:.1f}" '
        f'y="{TOP + HEIGHT + 38}">elements</text>'
    )
    clip = f"p{left:.0f}"
    out.append(
        f'<clipPath id="{clip}"><path d="M{left - 5} {TOP}h{WIDTH + 10}v{HEIGHT + 5}'
        f'h-{WIDTH + 10}z"/></clipPath>'
    )
    ends = []
    # pyblitz is drawn last, over the others.
    for who in sorted(lines, key=lambda name: name == "pyblitz"):
        i = list(names).index(who)
        points = [(x(n), y(ns)) for n, ns in lines[who]]
        path = "L".join(f"{px:.1f} {py:.1f}" for px, py in points)
        out.append(f'<g clip-path="url(#{clip})"><path class="line c{i}" d="M{path}"/>')
        out += [mark(names[who][2], px, py, f"f{i}") for px, py in points]
        out.append("</g>")
        ends.append((who, i, points[-1], lines[who][-1][1]))
    right = x(sizes[-1])  # where all labels are, of lines that end before too
    places = spread([max(TOP, py) for _, _, (_, py), _ in ends], 16, TOP + 4, TOP + HEIGHT)
    for (who, i, (px, py), ns), place in zip(ends, places, strict=True):
        if py >= TOP:
            out.append(
                f'<path class="thin c{i}" d="M{px + 5:.1f} {py:.1f}L{right + 14:.1f} {place:.1f}"/>'
            )
        out.append(
            f'<text class="f{i}" x="{right + 17:.1f}" y="{place + 4:.1f}">'
            f"{escape(who)} {ns:.3g}</text>"
        )
    return out


def draw(
    rows: list[Row],
    names: Who = WHO,
    wanted: Sequence[tuple[tuple[str, str, str], str]] = PANELS,
    title: str = "Nanoseconds of one element, two threads (lower is better)",
) -> str:
    """A picture without a panel for what was not measured."""
    panels = [(curves(rows, which, names), said) for which, said in wanted]
    panels = [(lines, said) for lines, said in panels if lines]
    step = LEFT + WIDTH + LABELS + GAP
    width, height = step * max(1, len(panels)), TOP + HEIGHT + 52
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-labelledby="t d">',
        '<title id="t">Time of one element by the number of elements</title>',
        '<desc id="d">Logarithmic axes; one panel for each operation; the number behind a name '
        "is the nanoseconds of an element in the largest array.</desc>",
        f"<style>{style(names)}</style>",
        f'<text class="ink title" x="8" y="18">{escape(title)}</text>',
    ]
    for i, (lines, said) in enumerate(panels):
        out += panel(lines, said, LEFT + i * step, names)
    return "\n".join([*out, "</svg>"]) + "\n"
