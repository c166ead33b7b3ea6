"""Pools of one's own, Python functions as their jobs, and blocks of so many threads."""
import _thread
import contextvars
import inspect
import threading
import time

cimport cython
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc
from pyblitz.host.blocks cimport Block, block_begins, block_ends, end_left_open, graver
from pyblitz.host.futures cimport begin_future, end_future
from pyblitz.host.pools cimport (
    Dropped, add_dropped, lock, new_lanes, new_pool, open_pools, reap_dropped)
from pyblitz.runtime.atomic cimport i64_load_relaxed
from pyblitz.runtime.call cimport Part
from pyblitz.runtime.job cimport Job
from pyblitz.runtime.lane cimport lane_submit, lanes_free
from pyblitz.runtime.pool cimport (
    POOL_CLOSED, Pool, Worker, add_user, current_worker, job_done, pool_enter, pool_help_here,
    pool_is_stale, pool_join, pool_leave, pool_post, pool_retire, pool_run_here, threads_refused)

from pyblitz.host.config import (
    MAX_THREADS, check_count, check_idle, check_pin, default_num_threads)
from pyblitz.host.futures import Future


class HereFuture(Future):
    """Of a job that may lie in the queue of the very thread that waits for it: of a pool
    that has no threads, or lacks some."""

    def __init__(self, pool):
        super().__init__()
        self._pool = pool       # its address, only compared

    def result(self, timeout=None):
        return super().result(help_here(self, timeout))

    def exception(self, timeout=None):
        return super().exception(help_here(self, timeout))


cdef object help_here(object future, object timeout):
    """Runs what lies in this thread's queue until the future is done, or its time is up.  How much of
    that is left."""
    cdef Pool* p = <Pool*><size_t>future._pool
    cdef bint ran = True
    until = None if timeout is None else time.monotonic() + timeout
    while ran and not future.done() and (until is None or time.monotonic() < until):
        with nogil:
            ran = pool_help_here(p)
    return None if until is None else max(0.0, until - time.monotonic())


cdef struct PyJob:
    Job job             # first: a Job* of this is its PyJob*
    Pool* pool
    PyObject* call      # (future, context, fn, args, kwargs, the futures that wait)


cdef void run_call(tuple call) noexcept:
    """Never raises: what the future's own callbacks raise, and blocks that are left open, is
    unraisable."""
    cdef Worker* w = current_worker()
    cdef void* mark = NULL
    cdef Part* part = NULL
    future, context, fn, args, kwargs, pending = call
    result = error = None
    if w != NULL:
        mark, part = w.mark_of_call, w.part
    if pending is not None:
        pending.discard(future)
    try:
        if begin_future(future):
            result = context.run(fn, *args, **kwargs)
    except BaseException as e:
        error = e
    late = end_future(future, result, error)
    if w != NULL:
        late = graver(late, end_left_open(w, part, mark))
    if late is not None:
        if not isinstance(late, KeyboardInterrupt):
            raise late
        _thread.interrupt_main()        # once more, when we have returned


cdef void run_py_job(void* worker, Job* job) noexcept nogil:
    cdef Pool* pool = (<PyJob*>job).pool
    run_keyed_py_job(worker, job)
    job_done(pool)


cdef void run_keyed_py_job(void* worker, Job* job) noexcept nogil:
    cdef PyJob* j = <PyJob*>job
    with gil:
        call = <object>j.call
        Py_DECREF(call)
        free(j)
        run_call(call)
        call = None


cdef object submit_call(Pool* p, set pending, object fn, tuple args, dict kwargs, bint keyed, uint64_t key):
    cdef PyJob* j
    try:
        if p.n_background == 0 or threads_refused(p) != 0:
            future = HereFuture(<size_t>p)
        else:
            future = Future()
        call = (future, contextvars.copy_context(), fn, args, kwargs, pending)
        j = <PyJob*>malloc(sizeof(PyJob))
        if j == NULL:
            raise MemoryError("no memory for the job")
    except BaseException:
        with nogil:
            job_done(p)
        raise
    if pending is not None:
        pending.add(future)
    j.job.run = run_keyed_py_job if keyed else run_py_job
    j.pool = p
    j.call = <PyObject*>call
    Py_INCREF(call)
    with nogil:
        if keyed:
            lane_submit(p, key, &j.job)
            job_done(p)
        elif p.n_background == 0:
            pool_run_here(p, &j.job)
        else:
            pool_post(p, &j.job)
    return future


cdef bint is_inside(Pool* p) noexcept:
    """Whether this thread is a worker of the pool, now or further out."""
    cdef Worker* w = current_worker()
    while w != NULL and w.pool != p:
        w = w.outer
    return w != NULL


cdef class NativePool:
    """What ``ThreadPool`` is made of; it has the documentation."""

    def __init__(self, num_threads=None, *, pin=None, idle_timeout=None, keep=0):
        if self._pool != NULL:
            raise RuntimeError("ThreadPool.__init__ was called twice")
        if num_threads is None:
            num_threads = default_num_threads()
        self.num_threads = check_count(num_threads, "num_threads", 1, MAX_THREADS)
        self._cpus = check_pin(pin)
        self._idle_ns, self._keep = check_idle(idle_timeout, keep)
        self._joining = threading.Lock()
        self._pending = set()
        # First, so that the end finds it, or it finds the end.
        open_pools[id(self)] = self
        with lock:
            if self._pool != NULL:
                raise RuntimeError("ThreadPool.__init__ was called twice")
            self._make()

    def __dealloc__(self):
        cdef Dropped* d = self._left
        if self._pool == NULL or pool_is_stale(self._pool):
            if d != NULL:
                lanes_free(d.lanes)
            free(d)
            return
        # It ends by itself, and somebody frees it then: whoever drops it may hold what
        # its jobs need.  In this order, so that the interpreter's end finds it.
        d.pool = self._pool
        add_dropped(d)
        pool_retire(self._pool)
        reap_dropped()

    cdef int _make(self) except -1:
        """With the lock: it runs Python, which lets other threads in, critical section or not."""
        cdef Pool* p
        cdef int i
        reap_dropped()
        if self._left == NULL:
            self._left = <Dropped*>malloc(sizeof(Dropped))
            if self._left == NULL:
                raise MemoryError("no memory for a pool")
            self._left.lanes = NULL
        # In a forked child, others: the parent's have jobs that are the parent's.
        if self._left.lanes == NULL or self._pool != NULL:
            self._left.lanes = new_lanes()
        p = new_pool(self.num_threads, self._left.lanes)
        p.sleep.retire_ns = self._idle_ns
        if self._idle_ns >= 0:
            p.sleep.keep = min(self._keep, p.n_background)
        if self._cpus:
            if len(set(self._cpus)) < self.num_threads:
                p.sleep.spin_ns = 0     # as with more threads than CPUs
            for i in range(p.n_background):
                p.workers[i].cpu = self._cpus[i % len(self._cpus)]
        self._pool = p
        return 0

    cdef Pool* _native(self) except NULL:
        with cython.critical_section(self):
            if self._pool == NULL or self._closed:
                raise RuntimeError("this ThreadPool is closed")
            if not pool_is_stale(self._pool):
                return self._pool
        # A forked child: the parent's threads and blocks are not here.  Of those who come first
        # at once, one makes the pool of all.
        with lock:
            if self._closed:
                raise RuntimeError("this ThreadPool is closed")
            if pool_is_stale(self._pool):
                self._make()
                self._blocks = 0
            return self._pool

    cdef Worker* _enter(self) except NULL:
        """Makes this thread a worker of the pool."""
        cdef Worker* w = pool_enter(self._native())
        if w == NULL:
            raise RuntimeError("this ThreadPool is closed")
        return w

    cdef object _count_blocks(self, int64_t more):
        with cython.critical_section(self):
            self._blocks += more

    def _end(self):
        """At the interpreter's end.  A block that nobody will leave (its generator is suspended,
        its thread has ended) keeps the threads from ending: they stay asleep."""
        cdef Pool* p = self._pool
        if self._blocks == 0 or p == NULL or pool_is_stale(p):
            self.close()
            return
        self._closed = True
        with nogil:
            pool_retire(p)
        while (i64_load_relaxed(&p.users) & ~POOL_CLOSED) > self._blocks:
            time.sleep(0.001)

    def install(self, fn, /, *args, **kwargs):
        """Calls ``fn(*args, **kwargs)`` in this thread, with this pool in the
        place of the global one for everything below the call.

        Parameters
        ----------
        fn : callable
        *args, **kwargs
            Its arguments.

        Returns
        -------
        object
            What ``fn`` returned.

        Raises
        ------
        RuntimeError
            When the pool is closed.

        Examples
        --------
        >>> import pyblitz as pb
        >>> with pb.ThreadPool(3) as pool:
        ...     pool.install(pb.num_threads)
        3
        """
        cdef Worker* w = current_worker()
        cdef void* mark
        cdef Part* part
        if w != NULL and w.pool == self._native():
            return fn(*args, **kwargs)
        w = self._enter()
        mark = w.mark_of_call
        part = w.part
        result = error = None
        try:
            result = fn(*args, **kwargs)
        except BaseException as e:
            error = e
        error = graver(error, end_left_open(w, part, mark))
        with nogil:
            pool_leave(w)
        if error is not None:
            raise error
        return result

    def submit(self, fn, /, *args, affinity=None, **kwargs):
        """Hands ``fn(*args, **kwargs)`` to the pool's threads.

        Parameters
        ----------
        fn : callable
            Runs once, in some thread of the pool, in a copy of the caller's
            context (so ``np.errstate`` holds in it too).  In a pool of one
            thread it runs here, before ``submit`` returns; if a job of the pool
            submits it, after that job, or when that one asks for its result.
        *args, **kwargs
            Its arguments.
        affinity : hashable, optional
            A key.  Jobs of one key run one at a time, in the order in which they
            were submitted, on one and the same thread of the pool, so that state
            which belongs to the key needs no lock (what is thread-local ends with
            the thread: see ``idle_timeout``).  Different keys share the
            threads; some share a queue, too.  In a pool of one thread a job runs
            here, unless jobs of its key are being run at the moment: whoever runs
            them then runs it, too.

        Returns
        -------
        concurrent.futures.Future

        Notes
        -----
        The pool has ``num_threads - 1`` threads of its own.  A job that waits for
        another job's future keeps one of them, as in ``concurrent.futures``: in a
        pool of two it would wait for itself, and so would, in any pool, a job that
        waits for a keyed one which belongs to its own thread.

        Raises
        ------
        RuntimeError
            When the pool is closed.
        TypeError
            When ``affinity`` is not hashable.

        Examples
        --------
        >>> import pyblitz as pb
        >>> with pb.ThreadPool(2) as pool:
        ...     pool.submit(pow, 2, 10).result()
        1024
        >>> counts = {}
        >>> def count(word):
        ...     counts[word] = counts.get(word, 0) + 1
        >>> with pb.ThreadPool() as pool:
        ...     for word in "a rose is a rose".split():
        ...         _ = pool.submit(count, word, affinity=word)
        >>> sorted(counts.items())
        [('a', 2), ('is', 1), ('rose', 2)]
        """
        cdef Pool* p
        cdef uint64_t key = 0
        if affinity is not None:
            try:
                key = <uint64_t><Py_ssize_t>hash(affinity)
            except TypeError:
                raise TypeError(f"affinity must be hashable, and "
                                f"{type(affinity).__name__} is not") from None
        p = NULL if self._closed else self._native()
        if p == NULL or not add_user(p):
            raise RuntimeError("cannot schedule new futures: this ThreadPool is closed")
        return submit_call(p, self._pending, fn, args, kwargs, affinity is not None, key)

    def close(self):
        """Refuses new work, finishes what was accepted, and ends the threads.

        Calling it again is harmless.

        Raises
        ------
        RuntimeError
            When called from inside one of the pool's own operations, which
            could then never end.

        Examples
        --------
        >>> import pyblitz as pb
        >>> pool = pb.ThreadPool(2)
        >>> pool.close()
        >>> pool.install(len, [])
        Traceback (most recent call last):
            ...
        RuntimeError: this ThreadPool is closed
        """
        self.shutdown()

    def shutdown(self, wait=True, *, cancel_futures=False):
        """Refuses new work: as ``concurrent.futures.Executor``.

        Parameters
        ----------
        wait : bool, optional
            Whether to return only when all that was accepted is done and the threads have
            ended, as :meth:`close`.  Otherwise that happens later, before the interpreter
            ends at the latest.
        cancel_futures : bool, optional
            Whether to cancel those jobs that have not begun.

        Raises
        ------
        RuntimeError
            When called with ``wait`` from inside one of the pool's own operations.

        Examples
        --------
        >>> import pyblitz as pb
        >>> pool = pb.ThreadPool(2)
        >>> future = pool.submit(pow, 2, 10)
        >>> pool.shutdown()
        >>> future.done()
        True
        """
        cdef Pool* p = self._pool
        if wait and p != NULL and is_inside(p):
            raise RuntimeError("a ThreadPool cannot be closed from inside itself")
        with lock:
            self._closed = True
            p = self._pool      # in a forked child, one may just have been made
        if cancel_futures:
            for future in list(self._pending):
                future.cancel()
        if p != NULL and not pool_is_stale(p):
            with nogil:
                pool_retire(p)
            if wait:
                # Whoever is second waits for the first: the interpreter, at its end,
                # for a daemon thread.
                with self._joining:
                    with nogil:
                        pool_join(p)
        if wait:
            open_pools.pop(id(self), None)
            reap_dropped()

    def __enter__(self):
        self._native()
        return self

    def __exit__(self, *exc):
        self.close()

    def __repr__(self):
        state = ", closed" if self._closed else ""
        return f"ThreadPool(num_threads={self.num_threads}{state})"


cdef dict kept = {}     # number of threads -> the pool of all blocks of so many


cdef class threads(Block):
    """How many threads the operations inside a ``with`` block use.

    Parameters
    ----------
    n : int
        From 1 (everything runs in the caller) to 16384.

    Raises
    ------
    TypeError, ValueError
        When ``n`` is no integer, or out of range.
    RuntimeError
        When the block is entered twice at a time, or left in another thread or not in the
        reverse order.

    See Also
    --------
    set_num_threads : for the whole process.
    ThreadPool.install : the same with a pool of one's own.

    Notes
    -----
    Holds for this thread, and for whatever the operations in the block lead to.  Blocks of one
    number, in any thread, share one pool, whose threads start when they are first needed and
    end when they had nothing to do for a second.  A block belongs to the thread and the function
    that entered it: in a coroutine it must not contain an ``await``, in a generator no ``yield``.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> with pb.threads(2):
    ...     pb.num_threads(), pb.par_sum(np.arange(1_000_000))
    (2, np.int64(499999500000))
    """

    cdef NativePool _pool
    cdef Worker* _worker    # that the thread is in the block
    cdef void* _mark        # its worker's mark_of_call when the block began
    cdef Part* _part        # what its worker was in the middle of when the block began
    cdef object _thread     # that is in the block, or None

    __signature__ = inspect.signature(lambda n: None)

    def __init__(self, n):
        if self._thread is not None:
            raise RuntimeError("this block of threads is in use")
        n = check_count(n, "n", 1, MAX_THREADS)
        with lock:
            pool = kept.get(n)
            if pool is None:
                pool = kept[n] = NativePool(n, idle_timeout=1.0)
        self._pool = pool

    def __enter__(self):
        ident = threading.get_ident()
        if self._pool is None:
            raise RuntimeError("threads.__init__ was not called")
        with cython.critical_section(self):
            if self._thread is not None:
                raise RuntimeError("this block of threads is in use")
            self._check_left()
            self._thread = ident
        try:
            self._worker = self._pool._enter()
        except BaseException:
            self._thread = None
            raise
        self._mark = self._worker.mark_of_call
        self._part = self._worker.part
        # The thread is in it until the block ends.
        self._pool._count_blocks(1)
        block_begins(self)
        return self

    def __exit__(self, type, exc, traceback):
        cdef Worker* w = self._worker
        if self._ended:
            self._too_late(exc)
            return
        if self._thread != threading.get_ident():
            raise RuntimeError("a block of threads must be left in the thread that entered it")
        if not pool_is_stale(w.pool) and (
                w != current_worker() or w.mark_of_call != self._mark or w.part != self._part):
            raise RuntimeError("blocks of threads must be left in the reverse order")
        self._end_left_open()
        block_ends(self)

    cdef int _end_left_open(self) except -1:
        cdef Worker* w = self._worker
        if not pool_is_stale(w.pool):
            self._pool._count_blocks(-1)
        with nogil:
            pool_leave(w)
        self._worker = NULL
        self._thread = None
        return 0
