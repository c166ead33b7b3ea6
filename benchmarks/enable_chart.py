"""Draws the results of enable.py; figures.py calls it.

How many times as fast operators on 10^6 elements and whole programs are under `enable`: a bar
each, the longest first, and a line where NumPy itself is.
"""

from __future__ import annotations

import pathlib
import sys
from html import escape

sys.path.append(str(pathlib.Path(__file__).resolve().parent))

import library_chart
from library_chart import WHO, Row

ELEMENTS = 10**6
NAMES, BARS, LINE, TOP = 260, 340, 19, 58


def gains(rows: list[Row], what: str) -> list[tuple[str, float]]:
    """The longest bar first."""
    found = [
        (r["name"], r["seconds"]["NumPy"] / r["seconds"]["enabled"])
        for r in rows
        if r["what"] == what and r.get("n") in (None, ELEMENTS)
    ]
    return sorted(found, key=lambda bar: -bar[1])


def draw(rows: list[Row]) -> str:
    parts = [
        ("operators on a million elements", gains(rows, "operator")),
        ("programs, unchanged", gains(rows, "program")),
    ]
    longest = max(gain for _, bars in parts for _, gain in bars)
    scale = BARS / longest
    width = NAMES + BARS + 60
    out, y = [], TOP
    for title, bars in parts:
        out.append(f'<text class="ink title" x="8" y="{y - 8}">{escape(title)}</text>')
        begin = y
        for name, gain in bars:
            out.append(
                f'<text class="soft" text-anchor="end" x="{NAMES - 8}" y="{y + 13}">'
                f"{escape(name)}</text>"
            )
            out.append(
                f'<rect class="f0" x="{NAMES}" y="{y + 3}" width="{gain * scale:.1f}" '
                f'height="{LINE - 6}" rx="2"/>'
            )
            out.append(
                f'<text class="ink" x="{NAMES + gain * scale + 6:.1f}" y="{y + 13}">'
                f"{gain:.2f}</text>"
            )
            y += LINE
        out.append(f'<path class="ruler" d="M{NAMES + scale:.1f} {begin - 2}V{y + 2}"/>')
        y += 34
    return (
        "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y - 20}" '
                f'width="{width}" height="{y - 20}" role="img" aria-labelledby="t d">',
                '<title id="t">NumPy&#8217;s time over the time under enable()</title>',
                '<desc id="d">A bar for each operator and each program; the line is NumPy.</desc>',
                f"<style>{library_chart.style({'pyblitz': WHO['pyblitz']})}"
                ".f0{stroke:none}.ruler{stroke:#57606a;stroke-dasharray:3 3}</style>",
                '<text class="ink title" x="8" y="18">'
                "Times as fast under pyblitz.enable(), two threads (dashed: NumPy itself)</text>",
                *out,
                "</svg>",
            ]
        )
        + "\n"
    )
