"""Draws the results of sorting.py; figures.py calls it.

Nanoseconds of one element over the number of elements, both axes logarithmic, for par_sort of
random int64; as library_chart.py.
"""

from __future__ import annotations

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent))

import library_chart
from library_chart import WHO, Row, Who

SORTERS: Who = {
    **{name: WHO[name] for name in ("pyblitz", "NumPy", "Polars", "torch")},
    "Rayon": ("#b4460f", "#ff9d5c", "diamond"),
    "TBB": ("#0a7a52", "#4cd6a3", "up"),
    "GNU parallel": ("#a3243b", "#ff8095", "diamond"),
    "pyarrow": ("#1b7f8c", "#5fd3e0", "up"),
    "pandas": ("#5a46b0", "#a99bf5", "down"),
}


def draw(rows: list[Row]) -> str:
    return library_chart.draw(
        rows, SORTERS, [(("random", "par_sort(a)", "int64"), "par_sort of random int64")]
    )
