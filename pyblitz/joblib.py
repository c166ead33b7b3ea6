"""A backend for joblib: ``import pyblitz.joblib``, then ``Parallel(backend="pyblitz")``.

Also for what uses joblib, as scikit-learn does: ``with joblib.parallel_config("pyblitz"):``.
The threads stay from one call to the next.  A call inside of a job runs in that job's thread,
and pyblitz's own functions there share the threads of the jobs, so that there are never more
than were asked for.  While jobs run, BLAS and OpenMP get what CPUs are left for each of them, or
``inner_max_num_threads``, as far as threadpoolctl is installed.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from joblib._parallel_backends import (
    AutoBatchingMixin,
    FallbackToBackend,
    ParallelBackendBase,
    SequentialBackend,
)
from joblib.parallel import register_parallel_backend

from pyblitz import ThreadPool
from pyblitz.host.config import default_num_threads

_making = threading.Lock()
_pool: ThreadPool | None = None


def _pool_of(n_jobs: int) -> ThreadPool:
    """The one that is there, if it has so many threads.  Another one is dropped, which waits for
    nothing: what others have in it is done."""
    global _pool
    with _making:
        if _pool is None or _pool.max_workers != n_jobs:
            _pool = ThreadPool(max_workers=n_jobs)
        return _pool


class _Limits:
    """Of other libraries' threads, in the whole process, as long as calls are running."""

    def __init__(self) -> None:
        self.calls = 0
        self.limited: Any = None
        self.lock = threading.Lock()
        # OpenMP has a number for each thread: its libraries, how many threads they may use, and
        # an object of this limit, by which a thread knows that it has been told.
        self.openmp: list[Any] = []
        self.threads = 0
        self.number: object = None
        self.told = threading.local()

    def enter(self, threads: int) -> None:
        with self.lock:
            self.calls += 1
            if self.calls == 1:
                with contextlib.suppress(ImportError):
                    import threadpoolctl

                    found = threadpoolctl.ThreadpoolController()
                    self.openmp = found.select(user_api="openmp").lib_controllers
                    self.threads, self.number = threads, object()
                    # Not "pyblitz": the threads of the jobs share among themselves.
                    self.limited = found.limit(limits={"blas": threads, "openmp": threads})

    def hold_here(self) -> None:
        """In a thread of the jobs, which has no other work: it keeps the limit."""
        if getattr(self.told, "number", None) is not self.number:
            self.told.number = self.number
            for library in self.openmp:
                library.set_num_threads(self.threads)

    def leave(self) -> None:
        with self.lock:
            self.calls -= 1
            if self.calls == 0 and self.limited is not None:
                self.limited.restore_original_limits()
                self.limited = None


_limits = _Limits()


class PyblitzBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]  # no stubs
    """Jobs in the threads of a :class:`pyblitz.ThreadPool`, cheap ones several at a time."""

    supports_inner_max_num_threads = True
    supports_retrieve_callback = True
    supports_sharedmem = True
    uses_threads = True

    # Seconds: handing over a batch costs some microseconds.
    MIN_IDEAL_BATCH_DURATION = 0.005
    MAX_IDEAL_BATCH_DURATION = 0.1

    _limiting = False

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """The number of threads; negative ones count from the end, as everywhere in joblib."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            return 1
        return n_jobs if n_jobs > 0 else max(default_num_threads() + 1 + n_jobs, 1)

    def configure(self, n_jobs: int = 1, parallel: Any = None, **options: Any) -> int:
        """How many jobs run at once, for joblib."""
        n_jobs = self.effective_n_jobs(n_jobs)
        if n_jobs == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        self.parallel = parallel
        self._pool = _pool_of(n_jobs)
        self._futures: set[Future[Any]] = set()
        if not self._limiting:
            self._limiting = True
            _limits.enter(self.inner_max_num_threads or max(default_num_threads() // n_jobs, 1))
        return n_jobs

    def terminate(self) -> None:
        """The call is over."""
        if self._limiting:
            self._limiting = False
            _limits.leave()
        self.reset_batch_stats()

    def submit(
        self, func: Callable[[], Any], callback: Callable[[Future[Any]], Any] | None = None
    ) -> Future[Any]:
        """One batch."""

        def run() -> Any:
            _limits.hold_here()
            return func()

        future = self._pool.submit(run)
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        """What the batch gave, or its exception."""
        return out.result()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """After an exception: what has not begun never will."""
        for future in list(self._futures):
            future.cancel()

    def get_nested_backend(self) -> tuple[ParallelBackendBase, None]:
        """Of calls in jobs: their own thread, for the others have jobs of their own."""
        return SequentialBackend(nesting_level=(self.nesting_level or 0) + 1), None


register_parallel_backend("pyblitz", PyblitzBackend)
