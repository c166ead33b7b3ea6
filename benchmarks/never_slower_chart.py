"""Draws the results of never_slower.py as a heat map, for figures.py.

A panel for each level and number of threads, a row for each function and dtype, a column for each
power of two; the colour says NumPy's time over ours.  Red is kept for the cells that count as
slower: below 0.95, and more than 1.5 us.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator
from html import escape

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from never_slower import DTYPES, FUNCTIONS, LEAST, LEVELS, THREADS, Row, is_red  # noqa: E402

CELL, GAP, NAMES, TOP, KEY = 5, 12, 150, 54, 34
# From NumPy's time over ours on: the colour on light ground, and on dark.
COLOURS = [
    (0.0, "#c8d1da", "#3d444d", "slower by less than 1.5 us, or as fast"),
    (1.05, "#c6e3d3", "#1f4a37", "from 1.05"),
    (1.5, "#74c29b", "#2e8059", "from 1.5"),
    (2.5, "#1f8a5b", "#54c08f", "from 2.5"),
    (10.0, "#07513a", "#a8f0cf", "from 10 times as fast"),
]
RED = ("#d1242f", "#ff5d66", "slower than NumPy")


def colour_of(numpys: float, ours: float) -> int:
    """0 is red; nanoseconds of either."""
    if is_red(numpys / 1e9, ours / 1e9):
        return 0
    return sum(numpys / ours >= low for low, *_ in COLOURS)


def order(rows: list[Row]) -> list[tuple[str, str]]:
    """Functions as they stand in the table, each with its dtypes."""
    there = {(r["name"], r["dtype"]) for r in rows}
    return [(f, d) for f in FUNCTIONS for d in DTYPES if (f, d) in there]


def runs(colours: list[int]) -> Iterator[tuple[int, int, int]]:
    """Neighbours of one colour: the first one, how many, the colour."""
    first = 0
    for i in range(1, len(colours) + 1):
        if i == len(colours) or colours[i] != colours[first]:
            yield first, i - first, colours[first]
            first = i


def draw(rows: list[Row], title: str) -> str:
    lines = order(rows)
    found = {(r["level"], r["threads"], r["name"], r["dtype"]): r for r in rows}
    columns = max(len(r["ours"]) for r in rows)
    panels = [
        (level, threads)
        for level in LEVELS
        for threads in THREADS
        if any((r["level"], r["threads"]) == (level, threads) for r in rows)
    ]
    paths: list[list[str]] = [[] for _ in range(len(COLOURS) + 1)]
    out = []
    for p, (level, threads) in enumerate(panels):
        x = NAMES + p * (columns * CELL + GAP)
        said = f"{level}, {threads} thread{'s' * (threads > 1)}"
        out.append(f'<text class="ink" x="{x}" y="{TOP - 18}">{said}</text>')
        for size in range(LEAST, LEAST + columns):
            if size in (4, 10, 16, 22):
                at = x + (size - LEAST) * CELL
                out.append(f'<text class="soft" x="{at}" y="{TOP - 5}">2<tspan dy="-3">'
                           f"{size}</tspan></text>")  # fmt: skip
        for y, line in enumerate(lines):
            row = found.get((level, threads, *line))
            if row is None:
                continue
            colours = [colour_of(a, b) for a, b in zip(row["numpy"], row["ours"], strict=True)]
            for first, many, colour in runs(colours):
                paths[colour].append(
                    f"M{x + first * CELL} {TOP + y * CELL}h{many * CELL}v{CELL - 1}h-{many * CELL}z"
                )
    for y, (name, _) in enumerate(lines):
        if y == 0 or lines[y - 1][0] != name:
            height = sum(f == name for f, _ in lines) * CELL
            middle = TOP + y * CELL + height / 2 + 3
            out.append(f'<text class="ink" text-anchor="end" x="{NAMES - 8}" y="{middle:.1f}">'
                       f"{escape(name)}</text>")  # fmt: skip
    width = NAMES + len(panels) * (columns * CELL + GAP)
    bottom = TOP + len(lines) * CELL
    at = 8
    for i, words in enumerate([RED[2], *(words for *_, words in COLOURS)]):
        out.append(f'<rect class="h{i}" x="{at}" y="{bottom + 14}" width="10" height="10"/>')
        out.append(f'<text class="soft" x="{at + 14}" y="{bottom + 23}">{words}</text>')
        at += 26 + 6 * len(words)
    light = [".ink{fill:#24292f}.soft{fill:#57606a}"]
    dark = [".ink{fill:#e6edf3}.soft{fill:#9aa4af}"]
    for i, (day, night) in enumerate([RED[:2], *((c[1], c[2]) for c in COLOURS)]):
        light.append(f".h{i}{{fill:{day}}}")
        dark.append(f".h{i}{{fill:{night}}}")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + KEY}" '
            f'width="{width}" height="{bottom + KEY}" role="img" aria-labelledby="t d">',
            '<title id="t">NumPy&#8217;s time over pyblitz&#8217;s, function by function</title>',
            f'<desc id="d">{escape(title)}. Rows: functions, each for '
            f'{escape(", ".join(DTYPES))}, from the top; columns: elements.</desc>',
            "<style>text{font:9.5px system-ui,-apple-system,'Segoe UI',sans-serif}"
            f".title{{font-size:13px;font-weight:600}}tspan{{font-size:7px}}{''.join(light)}"
            f"@media (prefers-color-scheme:dark){{{''.join(dark)}}}</style>",
            f'<text class="ink title" x="8" y="18">NumPy&#8217;s time over ours: '
            f"{escape(title)}</text>",
            *out,
            *(f'<path class="h{i}" d="{"".join(path)}"/>' for i, path in enumerate(paths) if path),
            "</svg>",
            "",
        ]
    )  # fmt: skip
