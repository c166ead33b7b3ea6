"""The Python side of the scheduler: see _python.pxd."""
import _thread
import atexit
import concurrent.futures
import contextvars
import inspect
import os
import threading
import time
import weakref

cimport cython
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport INT64_MAX, int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from pyblitz._futures cimport begin_future, end_future
from pyblitz.runtime.atomic cimport (
    CHECKED, DEQUE_CAPACITY, atomic_i64, atomic_ptr, atomic_u32, atomic_u64, fence_seq_cst,
    i64_fetch_add_acquire, i64_fetch_sub_acq_rel, i64_load_acquire, i64_load_relaxed,
    i64_store_relaxed,
    ptr_cas_acq_rel, ptr_cas_release, ptr_exchange_acq_rel, ptr_exchange_acquire,
    ptr_load_acquire, ptr_load_relaxed, ptr_store_relaxed,
    u32_load_relaxed, u32_store_relaxed, u64_load_relaxed,
    unlikely)
from pyblitz.runtime.call cimport (
    GO_ON, STOP_CANCELLED, STOP_FORKED, STOP_INTERRUPTED, STOP_NOT_WANTED, STOP_TIME_IS_UP, Call,
    Stop, call_begin, call_init, call_stop, call_stopped, progress_init, tell_fn)
from pyblitz.runtime.chaos cimport chaos
from pyblitz.runtime.job cimport Job
from pyblitz.runtime.join cimport promote_all
from pyblitz.runtime.os cimport membarrier_register, now_ns, yield_thread
from pyblitz.runtime.sleep cimport SLEEPER_AWAKE
from pyblitz.runtime.stats cimport (
    ACTIVITIES, BUSY, ELSEWHERE, SLEEPING, Noted, Span, Stats, stats_read, stats_record)
from pyblitz.runtime.pool cimport (
    POOL_CLOSED, Hooks, add_user, current_call, current_worker, enter_as_user,
    job_done, mail_level, mark_of, must_stop, pool_ended, pool_enter, pool_free, pool_help_here,
    pool_is_stale, pool_join, pool_leave, pool_new, pool_places, pool_post, pool_retire,
    pool_run_here, pool_worker, process_generation, set_hooks, set_thread_call, share_inside,
    thread_call, threads_refused)
from pyblitz.runtime.lane cimport Lane, lane_submit, lanes_free, lanes_new

from pyblitz._futures import Future
from pyblitz._config import (
    MAX_THREADS, asymmetric_fences, check_count, check_idle, check_pin, check_seconds,
    default_num_threads, simd_level, spin_microseconds)
from pyblitz.kernels.simd import levels

levels.choose(simd_level(levels.names()))

cdef extern from *:
    """
    #include <pthread.h>

    /* One thread state for each worker's life.  PyThreadState_New needs no GIL,
     * so that a starting worker never waits for a caller that holds it; from
     * then on PyGILState_Ensure in this thread finds the state. */
    static PyInterpreterState *pb_interp;
    static unsigned long pb_main_ident;

    /* Python links states into a list under a lock.  Up to 3.11.7 a forked child takes that
     * lock before it makes it anew (gh-112275), and waits for ever if a thread had it at the
     * fork.  Python's own threads have the GIL then, as who forks has; ours do not. */
    #if PY_VERSION_HEX < 0x030C0000
    static pthread_mutex_t pb_states = PTHREAD_MUTEX_INITIALIZER;
    static void pb_lock_states(void) { pthread_mutex_lock(&pb_states); }
    static void pb_unlock_states(void) { pthread_mutex_unlock(&pb_states); }
    static int pb_guard_states(void) {
      return pthread_atfork(pb_lock_states, pb_unlock_states, pb_unlock_states);
    }
    #else
    static void pb_lock_states(void) {}
    static void pb_unlock_states(void) {}
    static int pb_guard_states(void) { return 0; }
    #endif

    static PyThreadState *pb_new_state(void) {
      PyThreadState *t;
      pb_lock_states();
      t = PyThreadState_New(pb_interp);
      pb_unlock_states();
      return t;
    }

    static void pb_thread_begin(void) { pb_new_state(); }

    /* A thread that Python did not know (a C library's) gets a state when it first
     * calls in, and keeps it: an exception that is set in a state that ends with the
     * `with gil` block around it goes with that. */
    static _Thread_local PyThreadState *pb_stranger;
    /* Whether one of its exceptions is set that nobody was told of. */
    static _Thread_local int pb_mistaken;
    static pthread_key_t pb_stranger_key;
    static int pb_ending;

    /* Whether it never ran any Python, and so refers to nothing. */
    static int pb_is_blank(const PyThreadState *t) {
    #if PY_VERSION_HEX >= 0x030B0000
      if (t->datastack_chunk != NULL)
        return 0;
    #endif
      return t->dict == NULL && t->context == NULL && !pb_mistaken;
    }

    static void pb_tell_nobody(void) {
      pb_mistaken = 0;
      if (PyErr_Occurred())
        PyErr_WriteUnraisable(NULL);
    }

    /* At the thread's end.  What did not need the GIL does not need it now: who waits
     * for the thread may hold it. */
    static void pb_stranger_ends(void *state) {
      PyThreadState *t = state;
      /* acquire: partner is pb_end; from then on Python frees it */
      if (__atomic_load_n(&pb_ending, __ATOMIC_ACQUIRE))
        return;
    #ifndef Py_GIL_DISABLED
      if (pb_is_blank(t)) {
        PyThreadState_Clear(t);
        pb_lock_states();
        PyThreadState_Delete(t);
        pb_unlock_states();
        return;
      }
    #endif
      PyEval_RestoreThread(t);
      pb_tell_nobody();
      PyThreadState_Clear(t);
      PyThreadState_DeleteCurrent();
    }

    static void pb_end(void) { __atomic_store_n(&pb_ending, 1, __ATOMIC_RELEASE); }

    /* Whether nobody above this call hears of an exception.  The GIL is not held. */
    static int pb_is_stranger(void) {
      PyThreadState *t = PyGILState_GetThisThreadState();
      if (t == NULL && !__atomic_load_n(&pb_ending, __ATOMIC_ACQUIRE)) {
        t = pb_stranger = pb_new_state();
        if (t != NULL)
          pthread_setspecific(pb_stranger_key, t);
      }
      /* More: it is in a `with gil` block of its own. */
      return t != NULL && t == pb_stranger && t->gilstate_counter == 1;
    }

    /* Gives up the GIL, and on a free-threaded build what it is there, if this thread
     * has it; what to take it back with, or NULL. */
    static void *pb_let_go(void) {
    #if PY_VERSION_HEX >= 0x030D0000
      PyThreadState *t = PyThreadState_GetUnchecked();
    #else
      PyThreadState *t = _PyThreadState_UncheckedGet();
      /* Up to 3.11 it is that of whichever thread holds the GIL. */
      if (t != NULL && t != PyGILState_GetThisThreadState())
        t = NULL;
    #endif
      return t != NULL ? PyEval_SaveThread() : NULL;
    }

    static void pb_take_back(void *t) {
      if (t != NULL)
        PyEval_RestoreThread(t);
    }

    static void pb_thread_end(void) {
      PyThreadState *t;
      /* acquire: partner is pb_end; of a pool that nobody could close, after Python's end */
      if (__atomic_load_n(&pb_ending, __ATOMIC_ACQUIRE))
        return;
      PyGILState_Ensure();
      t = PyThreadState_Get();
      PyThreadState_Clear(t);
      PyThreadState_DeleteCurrent();
    }

    /* What threadpoolctl knows this module by (_threadpoolctl.py). */
    extern const int pyblitz_thread_pool;
    const int pyblitz_thread_pool = 1;

    static int pb_is_main_thread(void) {
      return PyThread_get_thread_ident() == pb_main_ident;
    }

    static int pb_make_key(void) {
      return pthread_key_create(&pb_stranger_key, pb_stranger_ends);
    }

    static void pb_remember(unsigned long main_ident) {
      pb_interp = PyInterpreterState_Get();
      pb_main_ident = main_ident;
    }

    /* A new reference to the exception that is set, with its traceback; it is
     * set no more.  NULL: none is. */
    static PyObject *pb_take_exception(void) {
    #if PY_VERSION_HEX >= 0x030C0000
      return PyErr_GetRaisedException();
    #else
      PyObject *type, *value, *traceback;
      PyErr_Fetch(&type, &value, &traceback);
      if (type == NULL)
        return NULL;
      PyErr_NormalizeException(&type, &value, &traceback);
      if (traceback != NULL) {
        PyException_SetTraceback(value, traceback);
        Py_DECREF(traceback);
      }
      Py_DECREF(type);
      return value;
    #endif
    }

    /* Raises it, and takes the reference. */
    static void pb_set_exception(PyObject *value) {
    #if PY_VERSION_HEX >= 0x030C0000
      PyErr_SetRaisedException(value);
    #else
      Py_INCREF(Py_TYPE(value));
      PyErr_Restore((PyObject *)Py_TYPE(value), value,
                    PyException_GetTraceback(value));
    #endif
    }
    """
    void py_thread_start "pb_thread_begin"() noexcept nogil
    void py_thread_stop "pb_thread_end"() noexcept nogil
    bint py_is_main_thread "pb_is_main_thread"() noexcept nogil
    void remember "pb_remember"(unsigned long)
    int make_key "pb_make_key"()
    int guard_states "pb_guard_states"()
    void end "pb_end"()
    bint is_stranger "pb_is_stranger"() noexcept nogil
    bint pb_mistaken
    void tell_nobody "pb_tell_nobody"()
    void* py_let_go "pb_let_go"() noexcept nogil
    void py_take_back "pb_take_back"(void*) noexcept nogil
    PyObject* take_exception "pb_take_exception"()
    void set_exception "pb_set_exception"(PyObject*)
    int PyErr_CheckSignals()
    void Py_Exit(int)
    PyObject* PyErr_Occurred()


# ---- hooks ------------------------------------------------------------------

cdef void* capture() noexcept nogil:
    with gil:
        return take_exception()


cdef void restore(void* error) noexcept nogil:
    # NULL: a kernel returned -1 without an exception
    if error != NULL:
        with gil:
            set_exception(<PyObject*>error)


cdef void drop(void* error) noexcept nogil:
    with gil:
        Py_DECREF(<object><PyObject*>error)


cdef bint is_raised() noexcept nogil:
    with gil:
        return PyErr_Occurred() != NULL


cdef int poll() noexcept nogil:
    with gil:
        return PyErr_CheckSignals()


cdef void stop(Stop why) noexcept nogil:
    with gil:
        try:
            if why == STOP_TIME_IS_UP:
                raise TimeoutError("the operation took longer than its CancelScope allows")
            if why == STOP_FORKED:
                raise RuntimeError("this process was forked in the middle of the operation: the "
                                   "threads that have parts of it are not here")
            if why == STOP_NOT_WANTED:
                raise concurrent.futures.CancelledError("another part of the operation failed")
            # Of an interrupted one this is seen only inside: see leave.
            raise concurrent.futures.CancelledError("the operation was cancelled")
        except BaseException as e:
            Py_INCREF(e)
            error = <PyObject*>e
        set_exception(error)


cdef void exit_child() noexcept nogil:
    with gil:
        Py_Exit(0)


cdef Hooks the_hooks
the_hooks.stop = stop
the_hooks.capture = capture
the_hooks.restore = restore
the_hooks.drop = drop
the_hooks.is_raised = is_raised
the_hooks.poll = poll
the_hooks.thread_start = py_thread_start
the_hooks.thread_stop = py_thread_stop
the_hooks.is_main_thread = py_is_main_thread
the_hooks.exit_child = exit_child
the_hooks.let_go = py_let_go
the_hooks.take_back = py_take_back
if make_key() != 0 or guard_states() != 0:
    raise MemoryError("pthread_key_create")
remember(threading.main_thread().ident)
set_hooks(&the_hooks)


# ---- whoever calls ----------------------------------------------------------

cdef void* let_go() noexcept nogil:
    return py_let_go()


cdef void take_back(void* gil) noexcept nogil:
    py_take_back(gil)


cdef void caller_begin(Caller* c, bint lets_go) noexcept nogil:
    c.gil = py_let_go() if lets_go else NULL
    c.unheard = c.gil == NULL and is_stranger() and current_worker() == NULL
    if unlikely(c.unheard and pb_mistaken):
        with gil:
            tell_nobody()


cdef int caller_end(Caller* c, int rc) noexcept nogil:
    if unlikely(c.unheard and rc == -1):
        with gil:
            tell_nobody()
    py_take_back(c.gil)
    return rc


cdef void caller_mistaken() noexcept nogil:
    global pb_mistaken
    cdef Caller c
    caller_begin(&c, False)
    if c.unheard:
        pb_mistaken = True


# ---- the global pool --------------------------------------------------------

cdef atomic_ptr global_pool
# Threads between reading global_pool and being counted as its user.  A pool
# that was replaced is freed only when this was zero afterwards.
cdef atomic_i64 entering
ptr_store_relaxed(&global_pool, NULL)
i64_store_relaxed(&entering, 0)
# Its threads, for those who do not enter it.
cdef atomic_u32 global_threads
u32_store_relaxed(&global_threads, 0)

# Guards `retired`, and what set_num_threads does as a whole.  Reentrant: the garbage
# collector may run destructors that ask for the number of threads.
_lock = threading.RLock()
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
    """A forked child leaves the parent's jobs to the parent.  Once, whoever asks at the
    same time."""
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
    """While the interpreter ends no thread may start: then it has none."""
    cdef bint asymmetric = asymmetric_fences()
    cdef int64_t spin = 0 if exiting else spin_microseconds(num_threads) * 1000
    # After the last line of Python above: nothing gives up the GIL from here to
    # where the caller publishes the pool, so the end finds it or was seen.
    cdef Pool* p = pool_new(1 if exiting else num_threads, asymmetric, lanes)
    if p == NULL:
        raise MemoryError(f"no memory for a pool of {num_threads} threads")
    p.sleep.spin_ns = spin
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
    """The pool of an operation that is called here, made if need be; the caller is
    its user until job_done."""
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
    cdef PyObject* failure
    cdef Worker* outer
    w.operations -= 1
    if unlikely(w.interrupt != NULL):
        # What the handler raised comes out, whatever else failed since: others were
        # told to stop because of it.
        with gil:
            failure = take_exception()      # NULL: -1 was a kernel's own code
            if failure != NULL:
                Py_DECREF(<object>failure)
            Py_INCREF(<object><PyObject*>w.interrupt)
            set_exception(<PyObject*>w.interrupt)
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
    cdef void* gil = py_let_go()
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
    ran[0] = w != NULL
    if w != NULL:
        mark, part, poll_at = w.mark_of_call, w.part, w.poll_at
        # Of nobody's, but with the mail that may run here: see Group in pool.pxd.
        call_init(&call, INT64_MAX, NULL)
        call.level = mail_level(w)
        w.mark_of_call = mark_of(&call)
        w.part = NULL
        w.poll_at = 0
        rc = fn(w, ctx)
        w.mark_of_call, w.part, w.poll_at = mark, part, poll_at
        if entered:
            pool_leave(w)
    py_take_back(gil)
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
        if the_recording is not None and the_recording._pool == p:
            the_recording._end()
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
        # One of their last jobs may have begun a recording.
        if the_recording is None and pool_ended(d.pool):
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
    with _lock:
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
    with _lock:
        if exiting:
            raise RuntimeError("set_num_threads: the interpreter is shutting down")
        replace_global(new_pool(n, lanes_of_this_process()))
        u32_store_relaxed(&global_threads, n)
    reap_dropped()
    # Who is at it already may wait for a thread that ends by calling this.
    if _reaping.acquire(blocking=False):
        try:
            with _lock:
                pools = unused()
            reap(pools)
        finally:
            _reaping.release()


def _in_child():
    global _lock, _reaping, retired
    _lock = threading.RLock()
    _reaping = threading.Lock()
    retired = []                # the parent's pools: left alone
    ptr_store_relaxed(&dropped, NULL)
    i64_store_relaxed(&entering, 0)
    u32_store_relaxed(&global_threads, 0)
    remember(threading.main_thread().ident)


def _at_exit():
    """Ends all threads before Python takes itself apart."""
    global exiting
    cdef Pool* p
    with _lock:
        exiting = True
    # A list at once: others may make pools, and close them.
    for reference in _open_pools.valuerefs():
        pool = reference()
        if pool is not None:
            pool._end()
    with _lock:
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
    end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
atexit.register(_at_exit)


# ---- what was built, and found -----------------------------------------------

cdef extern from *:
    """
    #ifdef __VERSION__
    #define PB_COMPILER __VERSION__
    #else
    #define PB_COMPILER "unknown"
    #endif
    #ifdef FUTEX_WAIT_PRIVATE
    #define PB_HAS_FUTEX 1
    #else
    #define PB_HAS_FUTEX 0
    #endif
    """
    const char* PB_COMPILER
    bint PB_HAS_FUTEX
    int CYTHON_HEX_VERSION


def built():
    """How these modules were compiled."""
    cdef int v = CYTHON_HEX_VERSION
    return {"cython": f"{v >> 24}.{v >> 16 & 255}.{v >> 8 & 255}",
            "compiler": PB_COMPILER.decode(),
            "debug_build": bool(CHECKED),
            "deque_capacity": DEQUE_CAPACITY}


def features():
    """What the system offers, and is used."""
    return {"membarrier": asymmetric_fences() and membarrier_register(),
            "futex": PB_HAS_FUTEX, "simd": levels.chosen()}


# ---- stopping ---------------------------------------------------------------

cdef class CancelScope:
    """What the operations inside a ``with`` block may take, and a way to stop them.

    Parameters
    ----------
    timeout : float, optional
        Seconds from the beginning of the block, 0 or more.  By default they may
        take for ever.

    Raises
    ------
    TypeError, ValueError
        When ``timeout`` is no number, or negative or not a number.

    See Also
    --------
    ThreadPool.submit : jobs are not a part of the block that submits them.

    Notes
    -----
    Inside the block every operation of pyblitz that this thread calls, and whatever
    such an operation leads to in other threads, raises `TimeoutError` when the time
    is up, or `concurrent.futures.CancelledError` after `cancel`.  It looks between
    its leaves, some 10 to 100 microseconds apart, in sorts up to 100 milliseconds; a
    Python function that runs at that moment runs to its end, and a compiled one until it
    polls.  What NumPy does by itself (small arrays, objects) is not stopped.  What an operation has written
    to ``out`` by then stays.

    Blocks may be nested: an inner one ends no later than the outer one.  A block
    belongs to the thread that entered it, and must be left there before any that it
    is nested in; in a coroutine it must not contain an ``await``.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> with pb.CancelScope(timeout=60):
    ...     pb.par_reduce(np.add, np.arange(1_000_000))
    np.int64(499999500000)
    >>> scope = pb.CancelScope()
    >>> scope.cancel()                      # from any thread
    >>> with scope:
    ...     pb.par_sort(np.arange(1_000_000)[::-1])
    Traceback (most recent call last):
        ...
    concurrent.futures._base.CancelledError: the operation was cancelled
    """

    __signature__ = inspect.signature(lambda timeout=None: None)

    def __init__(self, timeout=None):
        if self._thread is not None:
            raise RuntimeError("this CancelScope is in use")
        self._timeout = check_seconds(timeout, "timeout")
        call_init(&self._call, INT64_MAX, NULL)

    def cancel(self):
        """Stops what runs in the block, now and later.  From any thread, also before
        the block begins; again is harmless.

        Examples
        --------
        >>> import threading, numpy as np, pyblitz as pb
        >>> with pb.CancelScope() as scope:
        ...     threading.Timer(0.1, scope.cancel).start()
        ...     while True:
        ...         _ = pb.par_map(np.sin, np.ones(1_000_000))
        Traceback (most recent call last):
            ...
        concurrent.futures._base.CancelledError: the operation was cancelled
        """
        call_stop(&self._call, STOP_CANCELLED)

    def cancelled(self):
        """Whether it was cancelled, or its time is up.

        Returns
        -------
        bool

        Examples
        --------
        >>> import pyblitz as pb
        >>> with pb.CancelScope(timeout=0) as scope:
        ...     scope.cancelled()
        True
        """
        return call_stopped(&self._call) != GO_ON or now_ns() >= self._call.deadline

    def __enter__(self):
        cdef Worker* w = current_worker()
        cdef int64_t deadline = INT64_MAX
        ident = threading.get_ident()
        with cython.critical_section(self):
            if self._thread is not None:
                raise RuntimeError("this CancelScope is in use")
            self._thread = ident
        # A worker's call changes only where it has no lazy fork: see README.md, 5.15.
        if w != NULL and not promote_all(w):
            self._thread = None
            raise MemoryError("no memory for one more CancelScope")
        self._before = thread_call()
        self._worker = w
        self._part = w.part if w != NULL else NULL
        if self._timeout is not None:
            deadline = now_ns() + <int64_t>self._timeout
        call_begin(&self._call, deadline, self._before)
        if w != NULL:
            w.mark_of_call = mark_of(&self._call)
        else:
            set_thread_call(&self._call)
        # The thread refers to it until the block ends.
        Py_INCREF(self)
        return self

    def __exit__(self, *exc):
        cdef Worker* w = self._worker
        if self._thread != threading.get_ident():
            raise RuntimeError("a CancelScope must be left in the thread that entered it")
        # A block of tasks in it keeps the call that it belongs to, and tells by the part.
        if w != current_worker() and not (w != NULL and pool_is_stale(w.pool)) or (
                thread_call() if w == NULL else current_call(w)) != &self._call or (
                w != NULL and w.part != self._part):
            raise RuntimeError("CancelScopes must be left in the reverse order")
        if w != NULL:
            w.mark_of_call = mark_of(self._before)
        else:
            set_thread_call(self._before)
        self._thread = None
        self._worker = NULL
        self._call.outer = NULL
        Py_DECREF(self)


cdef class ProgressScope(CancelScope):
    """A block whose operations tell how far they are: see _progress.py.  The context
    is the listener's own; it is entered by one thread at a time."""

    def __init__(self, callback, context):
        CancelScope.__init__(self)
        self._callback = callback
        self._context = context

    def __enter__(self):
        cdef Worker* w = current_worker()
        CancelScope.__enter__(self)
        progress_init(&self._progress, <tell_fn>tell_progress, <void*>self,
                      w.part if w != NULL else NULL)
        self._call.progress = &self._progress
        return self

    def __exit__(self, *exc):
        CancelScope.__exit__(self)
        self._call.progress = NULL

    def tell(self, bint finished):
        """``finished``: nothing runs any more, and nothing is left."""
        # `done` first: `total` was never less.  But these are two variables.
        cdef int64_t done = i64_load_relaxed(&self._progress.done)
        cdef int64_t total = i64_load_relaxed(&self._progress.total)
        self._total = max(self._total, total)
        self._done = self._total if finished else max(self._done, min(done, self._total))
        self._context.run(self._callback, self._done, self._total)


cdef int tell_progress(void* listener) except -1 nogil:
    with gil:
        (<ProgressScope>listener).tell(False)
    return 0


# ---- recording --------------------------------------------------------------

cdef enum:
    COUNTERS = 6        # words at the beginning of Stats

cdef uint32_t recordings = 0
cdef Recording the_recording = None     # there is one at a time


cdef class Recording:
    """What the workers of one pool do, from now until `finish`; see _stats.py."""

    def __cinit__(self, bint spans):
        global recordings, the_recording
        cdef uint64_t* count
        cdef Stats* stats
        cdef int i, k
        with _lock:
            if the_recording is not None and not pool_is_stale(the_recording._pool):
                raise RuntimeError("another stats() or trace() is at work")
            with nogil:
                self._pool = borrow()
            # Referred to until the lock is free: a pool that goes takes its time.
            pools = [reference() for reference in _open_pools.valuerefs()]
            for pool in pools:
                # It is not freed as long as we refer to it.
                if pool is not None and (<NativePool>pool)._pool == self._pool:
                    self._owner = pool
            job_done(self._pool)
            self._n = pool_places(self._pool)
            self._before = <uint64_t*>malloc(self._n * COUNTERS * sizeof(uint64_t))
            if self._before == NULL:
                raise MemoryError("no memory for a recording")
            self._began = now_ns()
            recordings += 2
            self._number = recordings | (not spans)
            for i in range(self._n):
                stats = &pool_worker(self._pool, i).sleeper.stats
                count = <uint64_t*>stats
                for k in range(COUNTERS):
                    self._before[i * COUNTERS + k] = u64_load_relaxed(<atomic_u64*>(count + k))
                stats_record(stats, self._number, self._began)
            the_recording = self

    def __dealloc__(self):
        free(self._before)

    def finish(self):
        """Ends it, and gives what `read` would have given."""
        global the_recording
        with _lock:
            if the_recording is self:
                self._end()
            # Dropped after the lock, for it may be the last reference.
            _owner, self._owner = self._owner, None
        return self._last

    cdef object _end(self):
        """With the lock."""
        global the_recording
        cdef int i
        self._last = self._read()
        for i in range(self._n):
            stats_record(&pool_worker(self._pool, i).sleeper.stats, 0, 0)
        self._pool = NULL
        the_recording = None

    def read(self):
        """(seconds since it began, [(background, index, counters, ns of each activity,
        spans), ...]); a span is (begin, end, activity), in ns since it began."""
        with _lock:
            return self._read() if self._pool != NULL else self._last

    cdef object _read(self):
        cdef int64_t now, k
        cdef int i
        cdef Worker* w
        cdef Stats* s
        cdef Span* span
        cdef Noted* noted
        cdef Noted* all_noted = <Noted*>malloc(self._n * sizeof(Noted))
        if all_noted == NULL:
            raise MemoryError("no memory for what a recording has noted")
        try:
            for i in range(self._n):
                # A worker that was in the middle of it when its process forked does not go on.
                while (not stats_read(&pool_worker(self._pool, i).sleeper.stats, &all_noted[i])
                       and not pool_is_stale(self._pool)):
                    yield_thread()
            now = now_ns()      # not before any of them
            workers = []
            for i in range(self._n):
                w = pool_worker(self._pool, i)
                s = &w.sleeper.stats
                noted = &all_noted[i]
                counters = tuple([
                    u64_load_relaxed(<atomic_u64*>(<uint64_t*>s + k))
                    - self._before[i * COUNTERS + k] for k in range(COUNTERS)])
                background = i < self._pool.n_background
                if noted.recording != self._number:
                    # It has done one thing all the time.
                    memset(noted, 0, sizeof(Noted))
                    noted.since, noted.what = self._began, ELSEWHERE
                    if background:
                        noted.what = SLEEPING if u32_load_relaxed(
                            &w.sleeper.asleep) != SLEEPER_AWAKE else BUSY
                noted.times[<int>noted.what] += now - noted.since
                spans = []
                for k in range(noted.n_spans):
                    span = &s.spans[k]
                    spans.append((span.begin - self._began, span.end - self._began,
                                  <int>span.what))
                spans.append((noted.since - self._began, now - self._began, <int>noted.what))
                workers.append((
                    background, i if background else i - self._pool.n_background, counters,
                    tuple([noted.times[k] for k in range(ACTIVITIES)]), spans))
            return (now - self._began) * 1e-9, workers
        finally:
            free(all_noted)


# ---- pools of one's own -----------------------------------------------------

_open_pools = weakref.WeakValueDictionary()     # by id


class HereFuture(Future):
    """Of a job that may lie in the queue of the very thread that waits for it: of a pool
    that has no threads, or lacks some."""

    def __init__(self, pool):
        super().__init__()
        self._pool = pool       # its address, only compared

    def result(self, timeout=None):
        help_here(self)
        return super().result(timeout)

    def exception(self, timeout=None):
        help_here(self)
        return super().exception(timeout)


cdef int help_here(object future) except -1:
    cdef Pool* p = <Pool*><size_t>future._pool
    if not future.done():
        with nogil:
            pool_help_here(p)
    return 0


cdef struct PyJob:
    Job job             # first: a Job* of this is its PyJob*
    Pool* pool
    PyObject* call      # (future, context, fn, args, kwargs, the futures that wait)


cdef void run_call(tuple call) noexcept:
    """Never raises: what the future's own callbacks raise is unraisable."""
    future, context, fn, args, kwargs, pending = call
    result = error = None
    if pending is not None:
        pending.discard(future)
    try:
        if begin_future(future):
            result = context.run(fn, *args, **kwargs)
    except BaseException as e:
        error = e
    late = end_future(future, result, error)
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
    """Hands ``fn(*args, **kwargs)`` to a pool; the future, which is among ``pending``, unless that
    is None, until the call begins.  Takes over the caller's share of the pool's users."""
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
        _open_pools[id(self)] = self
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
            if pool_is_stale(self._pool):
                # A forked child: the parent's threads and blocks are not here.
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
        if w != NULL and w.pool == self._native():
            return fn(*args, **kwargs)
        w = self._enter()
        try:
            return fn(*args, **kwargs)
        finally:
            with nogil:
                pool_leave(w)

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
        with cython.critical_section(self):
            self._closed = True
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
            _open_pools.pop(id(self), None)
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


cdef class threads:
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

    __signature__ = inspect.signature(lambda n: None)

    def __init__(self, n):
        if self._thread is not None:
            raise RuntimeError("this block of threads is in use")
        n = check_count(n, "n", 1, MAX_THREADS)
        with _lock:
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
        Py_INCREF(self)
        return self

    def __exit__(self, *exc):
        cdef Worker* w = self._worker
        if self._thread != threading.get_ident():
            raise RuntimeError("a block of threads must be left in the thread that entered it")
        if not pool_is_stale(w.pool) and (
                w != current_worker() or w.mark_of_call != self._mark or w.part != self._part):
            raise RuntimeError("blocks of threads must be left in the reverse order")
        if not pool_is_stale(w.pool):
            self._pool._count_blocks(-1)
        with nogil:
            pool_leave(w)
        self._worker = NULL
        self._thread = None
        Py_DECREF(self)
