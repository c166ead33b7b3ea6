"""The global pool, and pools that end: see pools.pxd."""
import atexit
import os
import threading
import weakref

from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport free, malloc
from pyblitz.host.interpreter cimport capture, drop, interpreter_ends, let_go, restore, take_back
from pyblitz.runtime.atomic cimport (
    atomic_i64, atomic_ptr, atomic_u32, fence_seq_cst, i64_fetch_add_acquire,
    i64_fetch_sub_acq_rel, i64_load_acquire, i64_store_relaxed, ptr_cas_acq_rel, ptr_cas_release,
    ptr_exchange_acq_rel, ptr_exchange_acquire, ptr_load_acquire, ptr_load_relaxed,
    ptr_store_relaxed, u32_load_relaxed, u32_store_relaxed, unlikely)
from pyblitz.runtime.call cimport GO_ON, STOP_INTERRUPTED, Call, Part, call_init, call_stop
from pyblitz.runtime.chaos cimport chaos
from pyblitz.runtime.join cimport promote_all
from pyblitz.runtime.lane cimport Lane, lanes_free, lanes_new
from pyblitz.runtime.pool cimport (
    POOL_CLOSED, Worker, add_user, call_of, change_call, current_call, current_worker,
    enter_as_user, mail_level, must_stop, pool_ended, pool_free, pool_is_stale, pool_join, pool_leave, pool_new,
    pool_retire, process_generation, share_inside, thread_call, threads_refused)

from pyblitz.host.config import (
    MAX_THREADS, asymmetric_fences, check_count, default_num_threads, places_threads,
    spin_microseconds)

cdef extern from *:
    """
    /* What threadpoolctl knows this module by (_threadpoolctl.py). */
    extern const int pyblitz_thread_pool;
    const int pyblitz_thread_pool = 1;
    """

cdef atomic_ptr global_pool
# Threads between reading global_pool and being counted as its user.  A pool
# that was replaced is freed only when this was zero afterwards.
cdef atomic_i64 entering
ptr_store_relaxed(&global_pool, NULL)
i64_store_relaxed(&entering, 0)
# The global pool's number of threads, for is_alone, which does not enter it; 0: not known.
cdef atomic_u32 global_threads
u32_store_relaxed(&global_threads, 0)

# Also of `retired`, and of what set_num_threads does as a whole.
lock = threading.RLock()
open_pools = weakref.WeakValueDictionary()
# Held while replaced pools are joined, so that the exit waits for that, too.
_reaping = threading.Lock()
cdef list retired = []          # addresses of pools that were replaced
cdef bint exiting = False       # the interpreter is about to end: no threads


# Of the global pool, whichever it is at the moment; a pool that was replaced may
# still run some.  Never freed, for the same reason.
cdef struct GlobalLanes:
    Lane* lanes
    int64_t generation      # the process that they belong to

cdef atomic_ptr global_lanes
ptr_store_relaxed(&global_lanes, NULL)


cdef Lane* lanes_of_this_process() except NULL:
    """A forked child gets lanes of its own, for the parent's hold the parent's jobs.  All who ask at the
    same time get the same ones."""
    # acquire: partner is the compare-and-swap
    cdef GlobalLanes* g = <GlobalLanes*>ptr_load_acquire(&global_lanes)
    cdef GlobalLanes* mine
    while g == NULL or g.generation != process_generation():
        mine = <GlobalLanes*>malloc(sizeof(GlobalLanes))
        if mine == NULL:
            raise MemoryError("no memory for the lanes of a pool")
        mine.generation = process_generation()
        mine.lanes = lanes_new()
        if mine.lanes != NULL and ptr_cas_acq_rel(&global_lanes, g, mine):
            return mine.lanes
        lanes_free(mine.lanes)
        missing = mine.lanes == NULL
        free(mine)
        if missing:
            raise MemoryError("no memory for the lanes of a pool")
        g = <GlobalLanes*>ptr_load_acquire(&global_lanes)
    return g.lanes


cdef Lane* new_lanes() except NULL:
    cdef Lane* lanes = lanes_new()
    if lanes == NULL:
        raise MemoryError("no memory for the lanes of a pool")
    return lanes


cdef Pool* new_pool(int num_threads, Lane* lanes) except NULL:
    """While the interpreter ends no thread may start, so the new pool has none."""
    cdef bint asymmetric = asymmetric_fences(), places = places_threads()
    cdef int64_t spin = 0 if exiting else spin_microseconds(num_threads) * 1000
    # After the last line of Python above: nothing gives up the GIL from here to
    # where the caller publishes the pool, so the end finds it or was seen.
    cdef Pool* p = pool_new(1 if exiting else num_threads, asymmetric, lanes)
    if p == NULL:
        raise MemoryError(f"no memory for a pool of {num_threads} threads")
    p.sleep.spin_ns = spin
    u32_store_relaxed(&p.sleep.places, places)
    return p


cdef int make_global(Pool* old) except -1 nogil:
    """Puts a new pool where ``old`` (NULL, or a parent process's) was, unless
    another thread was faster.  No lock, which a fork could catch held."""
    cdef Pool* p
    cdef Lane* lanes
    with gil:
        n = default_num_threads()
        reap_dropped()
        lanes = lanes_of_this_process()
        p = new_pool(n, lanes)      # last: see there
        # acq_rel: partner is the acquire load in borrow
        if ptr_cas_acq_rel(&global_pool, old, p):
            # relaxed: a hint, which is not to stay wrong.  Who puts another pool there now
            # may have stored its number before we stored ours.
            u32_store_relaxed(&global_threads, n)
            fence_seq_cst()
            if ptr_load_relaxed(&global_pool) != p:
                u32_store_relaxed(&global_threads, 0)
        else:
            pool_retire(p)
            pool_join(p)
            pool_free(p)
    return 0


cdef Pool* borrow() except NULL nogil:
    cdef Worker* w = current_worker()
    cdef Pool* p
    cdef bint missing, mine = False
    if w != NULL:
        share_inside(w.pool)
        return w.pool
    while not mine:
        # acquire: nothing below moves above it.  Partner: unused.
        i64_fetch_add_acquire(&entering, 1)
        fence_seq_cst()
        p = <Pool*>ptr_load_acquire(&global_pool)
        chaos(b"borrow: read")
        # While still counted: afterwards p may be freed.
        missing = p == NULL or pool_is_stale(p)
        # False: it was replaced meanwhile.
        mine = not missing and add_user(p)
        i64_fetch_sub_acq_rel(&entering, 1)
        if missing:
            make_global(p)
    return p


cdef bint is_alone() noexcept nogil:
    # relaxed: another number of threads is slower or faster, and gives the same
    return u32_load_relaxed(&global_threads) == 1 and current_worker() == NULL and thread_call() == NULL


cdef int enter(Entry* e) except -1 nogil:
    e.outermost = False
    e.worker = current_worker()
    if e.worker == NULL:
        e.worker = enter_as_user(borrow())
        e.outermost = True
        if e.worker == NULL:
            with gil:
                raise MemoryError("no memory for one more caller of pyblitz")
    e.worker.operations += 1
    if current_call(e.worker) != NULL and must_stop(e.worker, 0):
        return leave(e, -1)
    return 0


cdef int leave(Entry* e, int rc) noexcept nogil:
    cdef Worker* w = e.worker
    cdef void* failure
    cdef Worker* outer
    w.operations -= 1
    if unlikely(w.interrupt != NULL):
        # What the handler raised comes out, whatever else failed since: others were
        # told to stop because of it.
        with gil:
            failure = capture()     # NULL: -1 was a kernel's own code
            if failure != NULL:
                drop(failure)
            Py_INCREF(<object><PyObject*>w.interrupt)
            restore(w.interrupt)
            if w.operations == 0:
                outer = w.outer
                while outer != NULL and (outer.poll_at == 0 or outer.operations == 0):
                    outer = outer.outer
                if outer != NULL and outer.interrupt == NULL:
                    # Of another pool, and in the middle of an operation, too.
                    outer.interrupt = w.interrupt
                    call_stop(&outer.call, STOP_INTERRUPTED)
                else:
                    Py_DECREF(<object><PyObject*>w.interrupt)
                w.interrupt = NULL
                # relaxed: whatever belongs to this call is done
                u32_store_relaxed(&w.call.stop, GO_ON)
        rc = -1
    if e.outermost:
        pool_leave(w)
    return rc


ctypedef Pool* (*raw_borrow_fn)() noexcept nogil


cdef int run_to_end(job_to_end fn, void* ctx, bint* ran) noexcept nogil:
    cdef void* gil = let_go()
    cdef Worker* w = current_worker()
    cdef Pool* p
    cdef bint entered = w == NULL
    cdef Call call
    cdef void* mark
    cdef Part* part
    cdef int64_t poll_at
    cdef int rc = 0
    if entered:
        p = (<raw_borrow_fn>borrow)()
        if p == NULL:
            drop(capture())
        else:
            w = enter_as_user(p)
    if w != NULL and not promote_all(w):
        w = NULL        # no memory
    ran[0] = w != NULL
    if w != NULL:
        mark, part, poll_at = w.mark_of_call, w.part, w.poll_at
        # Of nobody's, but with the mail that may run here: see Group in pool.pxd.
        call_init(&call, INT64_MAX, NULL)
        call.level = mail_level(w)
        change_call(w, &call)
        w.part = NULL
        w.poll_at = 0
        rc = fn(w, ctx)
        change_call(w, call_of(mark))
        w.part, w.poll_at = part, poll_at
        if entered:
            pool_leave(w)
    take_back(gil)
    return rc


cdef list unused():
    """Takes the replaced pools that nobody uses out of the list of all.  The caller
    holds the lock."""
    cdef Pool* p
    cdef list found = []
    for address in list(retired):
        p = <Pool*><size_t>address
        # Partner: the counting in borrow.  Whoever read the old pool before it was
        # replaced is counted as its user, or still as entering.
        fence_seq_cst()
        if i64_load_acquire(&entering) != 0 or i64_load_acquire(&p.users) != POOL_CLOSED:
            continue
        retired.remove(address)
        found.append(address)
        if recorded == p:
            end_recording()
    return found


cdef object reap(list pools):
    """Joins and frees them.  Without the lock: what ends with a thread (thread-local
    objects) may ask for it."""
    cdef Pool* p
    for address in pools:
        p = <Pool*><size_t>address
        with nogil:
            pool_join(p)
        pool_free(p)


cdef Pool* recorded = NULL
cdef end_fn end_recording = NULL


cdef void set_recorded(Pool* p, end_fn end) noexcept:
    global recorded, end_recording
    recorded, end_recording = p, end


# Pools whose ThreadPool is gone, which were told to end, and not yet freed.
cdef atomic_ptr dropped
ptr_store_relaxed(&dropped, NULL)


cdef void add_dropped(Dropped* d) noexcept nogil:
    cdef void* head
    while True:
        # relaxed: only compared and linked
        head = ptr_load_relaxed(&dropped)
        d.next = <Dropped*>head
        # release: partner is the exchange in whoever takes them
        if ptr_cas_release(&dropped, head, d):
            return


cdef void reap_dropped() noexcept:
    """Frees those that have ended.  Without a lock, and without a wait: the garbage
    collector comes here from anywhere."""
    cdef Dropped* d = <Dropped*>ptr_exchange_acquire(&dropped, NULL)
    cdef Dropped* next
    while d != NULL:
        next = d.next
        # In this order: one of their last jobs may have begun a recording.
        if pool_ended(d.pool) and recorded == NULL:
            pool_join(d.pool)
            pool_free(d.pool)
            lanes_free(d.lanes)
            free(d)
        else:
            add_dropped(d)
        d = next


cdef bint join_dropped() noexcept nogil:
    """At the interpreter's end: whether there were any.  Not freed, as there."""
    cdef Dropped* d = <Dropped*>ptr_exchange_acquire(&dropped, NULL)
    cdef bint any_of_them = d != NULL
    while d != NULL:
        pool_join(d.pool)
        d = d.next
    return any_of_them


cdef object replace_global(Pool* p):
    """Makes ``p`` (or NULL) the global pool; the old one ends when its last
    user leaves.  The caller holds the lock."""
    cdef Pool* old = <Pool*>ptr_exchange_acq_rel(&global_pool, p)
    if old != NULL and not pool_is_stale(old):
        retired.append(<size_t>old)
        with nogil:
            pool_retire(old)


def num_threads():
    """The number of threads that an operation called here would use.

    Inside :meth:`ThreadPool.install` and inside parallel operations it is that
    pool's number, elsewhere the global pool's: what was set by
    :func:`set_num_threads`, or ``PYBLITZ_NUM_THREADS``, or the number of CPUs
    that the affinity mask and the control group's quota grant this process.
    Threads that the system refused to start do not count, until it grants them:
    it is asked again about once a second, while the pool is in use.

    Returns
    -------
    int

    Examples
    --------
    >>> import pyblitz as pb
    >>> pb.num_threads() >= 1
    True
    """
    cdef Worker* w = current_worker()
    if w != NULL:
        return w.pool.n_background + 1 - threads_refused(w.pool)
    return threads_of_global(True)


def global_num_threads():
    """What :func:`set_num_threads` sets, wherever this is called."""
    return threads_of_global(False)


cdef object threads_of_global(bint without_refused):
    cdef Pool* p
    with lock:
        p = <Pool*>ptr_load_acquire(&global_pool)
        if p != NULL and not pool_is_stale(p):
            return p.n_background + 1 - (threads_refused(p) if without_refused else 0)
    return default_num_threads()


def set_num_threads(n):
    """Replaces the global pool by one of ``n`` threads.

    Operations that run go on where they are; later ones use the new pool.
    Threads start when they are first needed.

    Parameters
    ----------
    n : int
        From 1 (everything runs in the caller) to 16384.

    Raises
    ------
    TypeError, ValueError
        When ``n`` is no integer, or out of range.
    RuntimeError
        While the interpreter is shutting down.

    Examples
    --------
    >>> import pyblitz as pb
    >>> before = pb.num_threads()
    >>> pb.set_num_threads(3)
    >>> pb.num_threads()
    3
    >>> pb.set_num_threads(before)
    """
    n = check_count(n, "n", 1, MAX_THREADS)
    with lock:
        if exiting:
            raise RuntimeError("set_num_threads: the interpreter is shutting down")
        replace_global(new_pool(n, lanes_of_this_process()))
        u32_store_relaxed(&global_threads, n)
    reap_dropped()
    # Who is at it already may wait for a thread that ends by calling this.
    if _reaping.acquire(blocking=False):
        try:
            with lock:
                pools = unused()
            reap(pools)
        finally:
            _reaping.release()


def _in_child():
    global lock, _reaping, retired
    lock = threading.RLock()
    _reaping = threading.Lock()
    retired = []                # the parent's pools: left alone
    ptr_store_relaxed(&dropped, NULL)
    i64_store_relaxed(&entering, 0)
    u32_store_relaxed(&global_threads, 0)


def _end_pools():
    """Ends all threads before Python takes itself apart."""
    global exiting
    cdef Pool* p
    with lock:
        exiting = True
    # A list at once: others may make pools, and close them.
    for reference in open_pools.valuerefs():
        pool = reference()
        if pool is not None:
            pool._end()
    with lock:
        replace_global(NULL)
    # Without the lock, which an operation may ask for before it ends; nobody else
    # takes from the list any more.  Not freed: a daemon thread may still be about
    # to look at one.
    cdef bint more = True
    with _reaping:
        while more:
            while retired:
                p = <Pool*><size_t>retired.pop()
                with nogil:
                    pool_join(p)
            # Their last jobs may drop others.
            with nogil:
                more = join_dropped()
    interpreter_ends()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
atexit.register(_end_pools)
