# cython: annotation_typing=False
"""`ThreadPool`: the native pool as an executor of the standard library."""

import collections
import concurrent.futures
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyblitz.host.config import MAX_THREADS, check_count
from pyblitz.host.threadpool import NativePool


def run_chunk(
    fn: Callable[..., Any], chunk: list[tuple[Any, ...]]
) -> tuple[list[Any], BaseException | None]:
    """What the calls gave, up to the first that raised, and what that was."""
    results = []
    failure = None
    for args in chunk:
        try:
            results.append(fn(*args))
        except BaseException as error:
            failure = error
        if failure is not None:
            break
    return results, failure


class ThreadPool(NativePool, concurrent.futures.Executor):
    """A pool of its own, beside the global one, and an executor of the standard library's kind.

    Parameters
    ----------
    num_threads : int, optional
        How many threads work on one operation, the caller included: the pool
        has ``num_threads - 1`` threads, which start when they are first
        needed.  By default as many as the global pool would have.
    max_workers : int, optional
        In the place of ``num_threads``: how many threads the pool has of its own, as for
        ``concurrent.futures.ThreadPoolExecutor``.
    pin : None, True or sequence of int, optional
        The CPU that each of the pool's threads stays on: none in particular; one
        after the other of those that this process may use, beginning with the
        second, so that the first is left to the caller; or one after the other of
        this list.  The caller's own thread stays as it is.
    idle_timeout : float, optional
        Seconds, 0 or more, after which a thread without work ends; another one is
        started in its place when it is needed, and finds none of its thread-local
        state.  By default threads live as long as the pool.
    keep : int, optional
        How many threads stay all the same, the first ones, 0 by default.  Without
        ``idle_timeout`` all do.

    Attributes
    ----------
    num_threads : int
    max_workers : int
        How many submitted jobs can run at once: ``num_threads - 1``, or 1 in a pool of one.

    Raises
    ------
    TypeError, ValueError
        When ``num_threads`` is not an integer from 1 to 16384, or ``max_workers`` not one from 1
        to 16383; when both are given; when ``pin`` is empty or names a CPU that this process may
        not use; when ``idle_timeout`` is negative, not finite or above 1e9; when ``keep`` is
        negative.
    OSError
        When the system does not let this process place its threads.

    Notes
    -----
    A pool is also a context manager, which closes it at the end.  In a forked
    child it starts afresh at first use.

    It can be given wherever a ``concurrent.futures.Executor`` is asked for: to
    ``loop.run_in_executor``, and to dask by ``dask.config.set(pool=pool)``.

    A pool that is not closed ends when nothing refers to it any more.  That waits for
    nothing, for the garbage collector may come at any moment, under any lock: what was
    submitted is done all the same, before the interpreter ends at the latest; then the
    threads end.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> with pb.ThreadPool(2) as pool:
    ...     pool.install(pb.par_reduce, np.add, np.arange(10))
    np.int64(45)
    """

    def __init__(
        self,
        num_threads: Any = None,
        *,
        max_workers: Any = None,
        pin: Any = None,
        idle_timeout: float | None = None,
        keep: Any = 0,
    ) -> None:
        if max_workers is not None:
            if num_threads is not None:
                raise TypeError("max_workers: not together with num_threads")
            num_threads = check_count(max_workers, "max_workers") + 1
            if num_threads > MAX_THREADS:
                raise ValueError(f"max_workers must be below {MAX_THREADS}, not {max_workers}")
        super().__init__(num_threads, pin=pin, idle_timeout=idle_timeout, keep=keep)

    @property
    def max_workers(self) -> int:
        return max(1, int(self.num_threads) - 1)

    # What dask asks an executor for.
    _max_workers = max_workers

    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[Any]:
        """Calls ``fn`` with an item of each iterable at a time, in the pool's threads.

        Parameters
        ----------
        fn : callable
        *iterables : iterable
            Read at once, up to the end of the shortest.
        timeout : float, optional
            Seconds from now on, after which a result that is asked for and not there raises
            TimeoutError.
        chunksize : int, optional
            How many calls are one job: cheap ones are better off together.
        buffersize : int, optional
            How many jobs may be ahead of the results that were taken; the iterables are then
            read as that goes on.

        Returns
        -------
        iterator
            The results, in order.  A call that raised raises when its result is taken.  What
            has not begun is cancelled when the iterator is closed.

        Raises
        ------
        RuntimeError
            When the pool is closed.
        TypeError, ValueError
            When ``chunksize`` or ``buffersize`` is no integer, or less than 1.

        Examples
        --------
        >>> import pyblitz as pb
        >>> with pb.ThreadPool() as pool:
        ...     list(pool.map(pow, [2, 3], [10, 2], chunksize=2))
        [1024, 9]
        """
        end = None if timeout is None else time.monotonic() + timeout
        size = check_count(chunksize, "chunksize")
        rows = zip(*iterables, strict=False)
        chunks = iter(lambda: list(itertools.islice(rows, size)), [])
        ahead: Iterator[list[tuple[Any, ...]]] = chunks
        if buffersize is not None:
            ahead = itertools.islice(chunks, check_count(buffersize, "buffersize"))
        jobs = collections.deque(self.submit(run_chunk, fn, chunk) for chunk in ahead)

        def results() -> Iterator[Any]:
            try:
                while jobs:
                    if buffersize is not None:
                        for chunk in itertools.islice(chunks, 1):
                            jobs.append(self.submit(run_chunk, fn, chunk))
                    left = None if end is None else end - time.monotonic()
                    done, error = jobs[0].result(left)
                    jobs.popleft()
                    # Whoever takes a result is the only one that refers to it.
                    done.reverse()
                    while done:
                        yield done.pop()
                    if error is not None:
                        try:
                            raise error
                        finally:
                            error = None  # which refers to this frame
            finally:
                for job in jobs:
                    job.cancel()

        return results()
