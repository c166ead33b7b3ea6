"""What the workers of a pool did: counts and times, and a timeline as a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from pyblitz._enable import taken
from pyblitz._html import bars
from pyblitz.arrays.front import left_alone
from pyblitz.host.recording import Recording

# As in runtime/stats.pxd; a guest slot is "elsewhere" when no caller uses it.
ACTIVITIES = ("elsewhere", "busy", "searching", "sleeping", "waiting")


_Stats = TypeVar("_Stats", bound="Stats")


class WorkerStats(NamedTuple):
    """What one worker did: a thread of the pool, or the callers that one after the other
    had one slot.

    Attributes
    ----------
    name : str
        The thread's, ``pyblitz-N``; or ``caller N``.
    jobs : int
        Taken from a queue and run; not what was forked and taken back.
    steals, failed_steals : int
        From other workers; a failed one lost a race, or found the deque empty after all.
    promotions : int
        Lazy forks that were made stealable.
    sleeps, wakes : int
        How often it blocked, and was woken to search.
    busy, waiting, searching, sleeping : float
        Seconds: running jobs; waiting in one for work that others have taken; looking
        for a job; blocked without one, or its thread never started.
    """

    name: str
    jobs: int
    steals: int
    failed_steals: int
    promotions: int
    sleeps: int
    wakes: int
    busy: float
    waiting: float
    searching: float
    sleeping: float

    @property
    def idle(self) -> float:
        """Seconds in which it did no work."""
        return self.waiting + self.searching + self.sleeping


class Stats:
    """What the workers of a pool do, from now until the ``with`` block ends: see `stats`."""

    _spans = False

    def __init__(self) -> None:
        self._recording = Recording(self._spans)
        self._left_before: dict[tuple[str, str], int] = left_alone()
        self._left_after: dict[tuple[str, str], int] | None = None
        self._taken_before = taken()
        self._taken_after: dict[str, tuple[int, int]] | None = None

    def _name(self, background: bool, index: int) -> str:
        return f"pyblitz-{index + 1}" if background else f"caller {index + 1}"

    @property
    def seconds(self) -> float:
        """How long it has run, or ran."""
        return float(self._recording.read()[0])

    @property
    def workers(self) -> list[WorkerStats]:
        """The pool's threads, and then those callers that did anything."""
        return [
            WorkerStats(
                self._name(background, index),
                *counters,
                *(times[ACTIVITIES.index(a)] * 1e-9 for a in WorkerStats._fields[-4:]),
            )
            for background, index, counters, times, spans in self._recording.read()[1]
            if background or any(counters) or any(times[1:])
        ]

    @property
    def left(self) -> dict[tuple[str, str], int]:
        """Large calls that NumPy, or a container, did alone: how many of each function, and
        for which reason."""
        now = left_alone() if self._left_after is None else self._left_after
        calls = {what: n - self._left_before.get(what, 0) for what, n in now.items()}
        return {what: n for what, n in calls.items() if n}

    @property
    def taken(self) -> dict[str, tuple[int, int]]:
        """What NumPy was asked for under `enable`: of each ufunc, and of "sort", how many calls
        were large enough to be looked at, and in how many of these other threads took part."""
        now = taken() if self._taken_after is None else self._taken_after
        counts = {}
        for name, (calls, shared) in now.items():
            before = self._taken_before.get(name, (0, 0))
            if calls > before[0]:
                counts[name] = calls - before[0], shared - before[1]
        return counts

    def _ended(self) -> None:
        """What is left to do when the block is over."""

    def __enter__(self: _Stats) -> _Stats:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._recording.finish()
        self._left_after = left_alone()
        self._taken_after = taken()
        self._ended()

    def __str__(self) -> str:
        rows: list[Sequence[str]] = [WorkerStats._fields]
        rows += ([f"{x:.6f}" if isinstance(x, float) else str(x) for x in w] for w in self.workers)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.rjust, row, widths)) for row in rows]
        return "\n".join(lines + self._remarks())

    def _remarks(self) -> list[str]:
        return [
            f"left to NumPy: {function} of {why}, {n} call{'s' * (n > 1)}"
            for (function, why), n in self.left.items()
        ]

    def _repr_html_(self) -> str:
        return bars(self.workers, self.seconds, self._remarks())


class Trace(Stats):
    """The same, and the timeline as a file at the end: see `trace`."""

    _spans = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        # Says at once whether it can be written.
        with open(self._path, "w"):
            pass
        super().__init__()

    def _ended(self) -> None:
        import json

        with open(self._path, "w") as f:
            json.dump({"traceEvents": self._events(), "displayTimeUnit": "ns"}, f)

    def _events(self) -> list[dict[str, Any]]:
        """In the Trace Event Format: one thread for each worker."""
        events: list[dict[str, Any]] = []
        pid = os.getpid()
        for tid, (background, index, _, _, spans) in enumerate(self._recording.read()[1]):
            shown = [s for s in spans if s[2] != ACTIVITIES.index("elsewhere")]
            if not shown:
                continue
            where = {"pid": pid, "tid": tid}
            name = self._name(background, index)
            events.append({"ph": "M", "name": "thread_name", "args": {"name": name}, **where})
            events += (
                {
                    "ph": "X",
                    "name": ACTIVITIES[what],
                    "cat": "pyblitz",
                    "ts": begin * 1e-3,
                    "dur": (end - begin) * 1e-3,
                    **where,
                }
                for begin, end, what in shown
            )
        return events


def stats() -> Stats:
    """Counts what each worker does, and times it, until the ``with`` block ends.

    Returns
    -------
    Stats
        Its ``workers`` is a list of `WorkerStats`, its ``seconds`` how long it ran, its
        ``left`` a dictionary of the calls that were left to NumPy, ``{(function, reason):
        calls}``: of all threads, and of arguments of 128 KiB and more.  Printed, it is a
        table and a line for each of those.  All can be read while it runs.  It is a
        context manager.

    Raises
    ------
    RuntimeError
        While another one, or a `trace`, is at work in this process.

    Notes
    -----
    Of the pool that operations called here use.  While it runs, each job that was
    taken from a queue costs a look at the clock; when none runs, a load and a branch, and
    forks cost nothing more.  Callers past the 64th at a time are not counted.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> with pb.stats() as s:
    ...     a = pb.par_sort(np.arange(1_000_000)[::-1])
    >>> caller = s.workers[-1]
    >>> caller.name, 0 < caller.busy <= s.seconds
    ('caller 1', True)
    >>> with pb.stats() as s:
    ...     a = pb.par_sort(np.arange(100_000).astype(object))
    >>> s.left
    {('par_sort', 'dtype object'): 1}
    """
    return Stats()


def trace(path: str | os.PathLike[str]) -> Trace:
    """As `stats`, and writes a timeline of all workers when the block ends.

    Parameters
    ----------
    path : str or path-like
        A file in the Trace Event Format (JSON), which https://ui.perfetto.dev and
        chrome://tracing open.  Of each worker the first 65,536 changes of what it does
        are kept.

    Returns
    -------
    Trace
        A `Stats` too.

    Raises
    ------
    OSError
        When the file cannot be written.
    RuntimeError
        While another one, or a `stats`, is at work in this process.

    Examples
    --------
    >>> import tempfile, os, numpy as np, pyblitz as pb
    >>> path = os.path.join(tempfile.mkdtemp(), "sort.json")
    >>> with pb.trace(path):
    ...     a = pb.par_sort(np.arange(1_000_000)[::-1])
    >>> os.path.getsize(path) > 0
    True
    """
    return Trace(path)
