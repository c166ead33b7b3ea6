"""Columns of a log: read, filtered, counted.

A web server's log as CSV, a column an array.  What the steps of a question have in common
is computed once, and no column is copied.  Run it with ``python examples/log_pipeline.py``.
"""

import io
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import pyblitz as pb

Column = npt.NDArray[Any]
PAGES = ["/", "/search", "/cart", "/pay", "/help", "/static/app.js", "/static/logo.png"]


def write_log(lines: int, seed: int) -> str:
    """Stands for a file: time, page, status, bytes, milliseconds."""
    rng = np.random.default_rng(seed)
    seconds = np.sort(rng.integers(0, 86_400, lines))
    time = np.datetime64("2026-11-21T00:00:00") + seconds
    page = rng.choice(PAGES, lines, p=[0.3, 0.2, 0.1, 0.05, 0.05, 0.2, 0.1])
    status = rng.choice([200, 304, 404, 500], lines, p=[0.85, 0.1, 0.04, 0.01])
    size = rng.integers(200, 50_000, lines)
    took = rng.lognormal(3, 1, lines) * np.where(page == "/search", 4, 1)
    columns = zip(time.astype(str), page, status, size, took, strict=True)
    return "".join(f"{t},{p},{s},{n},{ms:.2f}\n" for t, p, s, n, ms in columns)


class Log(NamedTuple):
    time: Column
    page: Column
    status: Column
    size: Column
    took: Column


def read_log(text: str) -> Log:
    kinds = [("time", "M8[s]"), ("page", "U20"), ("status", "i4"), ("size", "i8"), ("took", "f8")]
    table = np.loadtxt(io.StringIO(text), delimiter=",", dtype=kinds)
    # Side by side in memory, each for itself.
    return Log(*[pb.par_copy(table[name]) for name, _ in kinds])


def errors_by_hour(log: Log) -> Column:
    """How many requests failed, in each hour of the day."""
    time, status = pb.par_iter(log.time, log.status)
    hour = (time - log.time[0].astype("M8[D]")) // np.timedelta64(1, "h")
    return np.asarray(pb.par_bincount(hour[status >= 500].collect(), minlength=24))


def traffic(log: Log, page: str) -> float:
    """Megabytes sent for a page, without what came from caches."""
    size, status = pb.par_iter(log.size, log.status)
    wanted = pb.par_map(np.equal, log.page, page)
    return float(size[(status == 200) & pb.par_iter(wanted)].sum() / 1e6)


def times(log: Log, edges: Column) -> Column:
    """How many answers took how long: counts between edges, in milliseconds."""
    took, status = pb.par_iter(log.took, log.status)
    counts, _ = pb.par_histogram(took[status < 400].collect(), edges)
    return np.asarray(counts)


def slowest(log: Log, k: int) -> list[tuple[str, str, float]]:
    """The k requests that took longest, the longest first."""
    limit = pb.par_sort(log.took)[-k]
    rows = pb.par_flatnonzero(pb.par_map(np.greater_equal, log.took, limit))
    rows = rows[np.argsort(-log.took[rows], kind="stable")][:k]
    return [(str(log.time[i]), str(log.page[i]), float(log.took[i])) for i in rows]


def busiest(log: Log, k: int) -> list[tuple[str, int]]:
    """The k pages that were asked for most often."""
    ordered = pb.par_sort(log.page)
    begins = pb.par_flatnonzero(pb.par_map(np.not_equal, ordered[1:], ordered[:-1])) + 1
    begins = np.concatenate([[0], begins])
    counts = np.diff(begins, append=len(ordered))
    names = pb.par_take(ordered, begins)
    return [(str(names[i]), int(counts[i])) for i in np.lexsort((names, -counts))[:k]]


def main(lines: int = 60_000) -> tuple[Log, dict[str, Any]]:
    log = read_log(write_log(lines, seed=3))
    edges = np.array([0, 10, 30, 100, 300, 1_000, np.inf])
    answers: dict[str, Any] = {
        "errors": errors_by_hour(log),
        "traffic": traffic(log, "/search"),
        "times": times(log, edges),
        "slowest": slowest(log, 3),
        "busiest": busiest(log, 3),
    }
    print(
        f"{lines} requests, {answers['errors'].sum()} failed, the most "
        f"in the hour from {answers['errors'].argmax()} o'clock"
    )
    print(f"searches: {answers['traffic']:.0f} MB")
    for low, high, count in zip(edges, edges[1:], answers["times"], strict=False):
        print(f"{low:5.0f} ... {high:5.0f} ms {count:6d} {'#' * int(60 * count / lines)}")
    print("busiest:", answers["busiest"])
    print("slowest:", answers["slowest"])
    return log, answers


if __name__ == "__main__":
    main()
