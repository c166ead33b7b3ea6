"""Python functions as tasks: ``scope`` and ``spawn``.  Contexts and failures are as in forks.pyx."""
import atexit
import concurrent.futures
import contextvars
import inspect
import sys
import time

cimport cython
from libc.stdint cimport INT64_MAX, int64_t
from pyblitz.host.blocks cimport (
    Block, block_begins, block_ends, end_later, end_left_open, last_entered, rank_of_error)
from pyblitz.host.cancel cimport Listener
from pyblitz.host.forks cimport check_callable, failed_from
from pyblitz.host.futures cimport begin_future, end_future
from pyblitz.host.interpreter cimport check, raised
from pyblitz.host.pools cimport Entry, borrow, enter, leave
from pyblitz.host.threadpool cimport submit_call
from pyblitz.runtime.atomic cimport (
    atomic_i64, atomic_u32, fence_seq_cst, i64_fetch_add_relaxed, i64_load_relaxed,
    i64_store_relaxed, u32_cas_seq_cst, u32_exchange_acq_rel, u32_load_seq_cst, u32_store_relaxed)
from pyblitz.runtime.call cimport Call, Part, call_init, lower_limit
from pyblitz.runtime.chaos cimport chaos
from pyblitz.runtime.deque cimport deque_bottom_tag, deque_looks, deque_newest
from pyblitz.runtime.job cimport Job
from pyblitz.runtime.join cimport promote_all
from pyblitz.runtime.latch cimport count_down, count_try_up, count_up
from pyblitz.runtime.pool cimport (
    Pool, Worker, current_call, current_worker, enter_as_user, execute, execute_waiting, has_mail,
    hooks, job_done, mail_level, mark_of, must_stop, pool_is_stale, pool_leave, pop_task,
    serve_broadcasts, serve_mailbox, share_inside, threads_refused, wake_worker)
from pyblitz.runtime.scope cimport TASK_CALLERS, Scope, Task, scope_begin, scope_end, spawn_tasks
from pyblitz.runtime.sleep cimport post_internal

from pyblitz.host.futures import Future
from pyblitz.host.progress import listening

cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident() nogil


# ---- scope --------------------------------------------------------------------

cdef enum:
    # A spawned call.  The task that carries it, and whoever asks for its result
    # first, race for it; its share of the scope belongs to the task, as long as that
    # is not run.
    WAITS = 0
    TAKEN               # the task runs it, or it was dropped
    CLAIMED             # who asked runs it; the task still has the share
    HANDED              # who asked runs it, and has the share
    CLAIM_DONE          # who asked has run it; the task still has the share


class ScopeFuture(Future):
    """The future of a task of a scope: whoever asks for its result helps."""

    _spawned = None     # until it is done

    def result(self, timeout=None):
        if timeout is None:
            help_with(self)
        return super().result(timeout)

    def exception(self, timeout=None):
        if timeout is None:
            help_with(self)
        return super().exception(timeout)


cdef class Spawned:
    cdef Task task          # in use until its function runs; `home` refers to us till then
    cdef atomic_u32 state   # WAITS, TAKEN, CLAIMED, HANDED or CLAIM_DONE
    cdef int64_t index      # its place among the scope's tasks
    cdef int level          # of the mail that it was spawned in
    cdef unsigned long thread  # the thread that runs it
    cdef scope home         # its scope
    cdef object future      # what spawn returned
    # Of whoever runs it:
    cdef object context
    cdef object fn
    cdef tuple args
    cdef dict kwargs

    cdef void run(self, Worker* w) noexcept:
        """By whoever won the race.  w: NULL without memory for one."""
        cdef Part part
        cdef Part* before = NULL
        cdef void* mark = NULL
        cdef int64_t last = last_entered()
        cdef scope home = self.home
        future = self.future
        context, self.context = self.context, None
        fn, self.fn = self.fn, None
        args, self.args = self.args, None
        kwargs, self.kwargs = self.kwargs, None
        result = error = None
        if w != NULL:
            before = w.part
            mark = w.mark_of_call
            part.limit = &home._limit
            part.at = self.index
            part.outer = before
            w.part = &part
        self.thread = PyThread_get_thread_ident()
        try:
            # relaxed: a hint that saves work
            if self.index >= i64_load_relaxed(&home._limit):
                future.cancel()
            elif w != NULL and must_stop(w, 0):
                self.drop()
            if begin_future(future):
                result = context.run(fn, *args, **kwargs)
        except BaseException as e:
            error = e
            home._fail(self.index, e)
        late = end_future(future, result, error)
        if late is not None:
            home._fail(self.index, late)
        future._spawned = None
        if home._listener is not None and error is None and not future.cancelled():
            try:
                home._listener.count(1)
            except BaseException as e:
                home._fail(0, e)    # nobody is to go on
        # Also of what the future and the listener have called.  The future does not wait for it:
        # such a block's tasks may ask for its result.
        late = end_later(last) if w == NULL else end_left_open(w, &part, mark)
        if late is not None:
            home._fail(self.index, late)
        if w != NULL:
            w.part = before

    cdef int drop(self) except -1:
        """Instead of beginning, for it must stop: raises why, unless it is not wanted any more.  Then it
        has not failed, and is cancelled; why it is not wanted is known."""
        try:
            raised()
        except BaseException:
            # relaxed: its own limit says so, or the scope's end will say why
            if self.index < i64_load_relaxed(&self.home._limit) and not self.future.cancelled():
                raise
            self.future.cancel()
        return 0

    cdef void run_at(self, Worker* w, int level) noexcept:
        """At this level, of whoever waits for it or has spawned it, if that is deeper than the scope's:
        levels never sink on a stack (Group in pool.pxd), nor from a task to one that it spawns and
        asks for."""
        cdef void* mark = w.mark_of_call
        cdef Call call
        if level > mail_level(w):
            call_init(&call, INT64_MAX, current_call(w))
            call.level = level
            w.mark_of_call = mark_of(&call)
        self.run(w)
        w.mark_of_call = mark

    cdef void run_task(self, Worker* w) noexcept:
        """Of the task that carries it."""
        cdef scope home = self.home
        if u32_cas_seq_cst(&self.state, WAITS, TAKEN):
            self.run_at(w, self.level)
        else:
            # Our share is given back when we return; who claimed it gets another one,
            # unless it is done.
            count_up(&home._scope.latch, 1)
            chaos(b"scope: handing over")
            if not u32_cas_seq_cst(&self.state, CLAIMED, HANDED):
                count_down(&home._scope.latch, 1)   # not the last: there is our share
        # What referred to us; our caller does no more.
        home._open.pop(self.index, None)

    cdef int run_claim(self) except -1:
        """By whoever changed WAITS to CLAIMED: runs it in this thread."""
        cdef scope home = self.home
        cdef Pool* p = home._pool
        cdef Worker* w = current_worker()
        cdef Inline inline
        cdef Job* task = NULL
        cdef void* waiter
        cdef bint guest = False, held = False
        # The share that we rely on keeps the scope, hence its pool.
        if w == NULL or w.pool != p:
            w = NULL
            if not pool_is_stale(p):
                with nogil:
                    share_inside(p)
                    w = enter_as_user(p)
                    if w == NULL:
                        share_inside(p)     # the end of the claim may be the end of the scope
                guest = w != NULL
                held = not guest
        elif deque_looks(&w.tasks) > 0 and deque_newest(&w.tasks) == &self.task.job:
            # Or a thief was faster.
            task = pop_task(w)
        if w == NULL or not promote_all(w):
            # No memory for the deque: in the middle of what this thread is at.
            self.run(w)
        else:
            inline.job.run = run_inline
            inline.spawned = <void*>self
            inline.level = max(self.level, mail_level(w))
            if w == home._worker:
                # The owner's own number: nobody else writes it, nor adds 0 to it.
                home._inside += 1
                with nogil:
                    execute(w, &inline.job)
                home._inside -= 1
            else:
                with nogil:
                    # Nobody may reach here what it spawned.
                    execute_waiting(w, &inline.job)
        chaos(b"scope: claim done")
        # acq_rel: partner is the compare-and-swap in run_task
        if u32_exchange_acq_rel(&self.state, CLAIM_DONE) == HANDED:
            waiter = count_down(&home._scope.latch, 1)
            if waiter != NULL:
                wake_worker(<Worker*>waiter)
        if task != NULL:
            with nogil:
                promote_all(w)
                execute(w, task)
        if guest:
            with nogil:
                pool_leave(w)
        elif held:
            with nogil:
                job_done(p)
        return 0


cdef struct Inline:
    Job job             # first: a Job* of this is its Inline*
    void* spawned
    int level           # of the mail that waits for it, or that it was spawned in


cdef void run_inline(void* worker, Job* job) noexcept nogil:
    cdef Worker* w = <Worker*>worker
    cdef Inline* inline
    with gil:
        inline = <Inline*>job
        spawned = <Spawned>inline.spawned
        w.mark_of_call = spawned.home._scope.mark_of_call
        w.part = &spawned.home._scope.part
        spawned.run_at(w, inline.level)


cdef int run_spawned(Worker* w, void* ctx) noexcept nogil:
    with gil:
        spawned = <Spawned>ctx
        spawned.run_task(w)
        spawned = None
    return 0


cdef int help_with(object future) except -1:
    """Runs the future's task here if it has not begun, so that no task waits for one that waits for it.
    A task that has begun waits for what it asks for, and for blocks that it leaves open; nothing but
    that and mail is ever run on top of it."""
    cdef Spawned spawned = future._spawned
    if spawned is None or future.done():
        return 0
    if u32_cas_seq_cst(&spawned.state, WAITS, CLAIMED):
        return spawned.run_claim()
    if spawned.thread == PyThread_get_thread_ident() and not future.done():
        raise RuntimeError("the task of this future is running further out in this thread: "
                           "it would wait for itself")
    return wait_for(future)


cdef int wait_for(object future) except -1:
    """Until it is done.  A worker serves its mail meanwhile: two that broadcast, or one
    that waits for such a one, would wait for each other otherwise.  Mail does not wake
    it from this wait, so it looks."""
    cdef Worker* w = current_worker()
    if w == NULL:
        return 0        # the future's own wait will do
    with nogil:
        promote_all(w)
    while not future.done():
        try:
            # By its own condition: `concurrent.futures.wait` has an Event, whose lock Ctrl-C may
            # leave held, and whoever ends the future asks for that lock.
            Future.exception(future, 0.02)
        except (concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
            pass
        serve_mail(w)
    return 0


cdef void serve_mail(Worker* w) noexcept:
    """w: NULL, if this thread is none."""
    with nogil:
        if w != NULL and (w.mail != NULL or has_mail(w)) and promote_all(w):
            serve_mailbox(w)
            # What it waits for may need those of its own level, too.
            serve_broadcasts(w)


# Blocks that were entered and not left, by id: the runtime refers to them.
cdef dict open_scopes = {}


cdef class scope(Block):
    """Tasks that run in parallel, and are all done when the ``with`` block ends.

    Parameters
    ----------
    progress : bool or callable, optional
        True shows a bar of tqdm (the extra ``progress``): the tasks that are done, of those that
        were spawned so far.  A callable gets these two numbers as ``progress(done, total)``, every
        50 ms at most, from whatever thread has ended a task, and at the end of the block, if nothing
        failed.  What it raises ends the block: tasks that have not begun are cancelled.

    See Also
    --------
    join : a fixed number of functions.
    spawn : a task that nobody waits for.

    Raises
    ------
    RuntimeError
        When it is entered twice, or left in another thread, or before a block that
        was entered after it.
    TypeError
        When ``progress`` is neither a bool nor callable nor None.

    Notes
    -----
    If a task raises, tasks that were spawned after it do not begin any more (their
    futures are cancelled), operations of pyblitz in those that had begun stop, and the
    end of the block raises that exception, of several the one of the task that was
    spawned first.  (Ctrl-C and exits stop them all, and come out.)  If the block itself
    raises, no further task begins, and its exception comes out.  In any case everything that
    has begun is waited for, with this thread helping.

    The tasks belong to what the block belongs to: a `CancelScope` around it stops
    them.  A block belongs to the thread that entered it; in a coroutine it must not
    contain an ``await``.  One that a function which pyblitz calls leaves open, in a generator
    that hangs, ends with that function: what has not begun is cancelled, and what the end of
    the block raises, that function's caller gets.  Of a task its scope raises it, and of a job
    (`spawn`, `submit`) it goes to ``sys.unraisablehook``: their futures have their results by then.

    Examples
    --------
    >>> import pyblitz as pb
    >>> with pb.scope() as s:
    ...     squares = [s.spawn(pow, i, 2) for i in range(5)]
    >>> [f.result() for f in squares]
    [0, 1, 4, 9, 16]
    >>> tree = {"a": {"b": {}, "c": {}}, "d": {}}
    >>> found = []
    >>> def walk(node):
    ...     for name, child in node.items():
    ...         found.append(name)
    ...         s.spawn(walk, child)
    >>> with pb.scope() as s:
    ...     _ = s.spawn(walk, tree)
    >>> sorted(found)
    ['a', 'b', 'c', 'd']
    """
    cdef Scope _scope
    cdef Entry _entry
    cdef Worker* _worker        # the owner; NULL: not in the block
    cdef Pool* _pool
    cdef unsigned long _thread  # the thread that entered it
    cdef int _inside            # tasks of this scope under which the owner is
    cdef atomic_u32 _used       # 0, or 1: it was entered
    cdef bint _interrupted      # a signal handler raised while it was waited for
    cdef atomic_i64 _limit      # the lowest index that failed; later ones are dropped
    cdef atomic_i64 _count      # tasks spawned
    cdef dict _open             # index: Spawned, until its task was run
    cdef object _failure        # the failure that is raised: of the lowest rank, then of the lowest index
    cdef int64_t _failed_at     # the index of the task with _failure
    cdef int _failed_rank       # its rank
    cdef object _progress       # the parameter
    cdef object _listening      # the block that the listener lives in, as long as this one
    cdef Listener _listener     # whoever wants to know how many tasks are done, or None
    cdef object __weakref__

    __signature__ = inspect.signature(lambda *, progress=None: None)

    def __init__(self, *, progress=None):
        self._progress = progress

    def __enter__(self):
        # Before anything that lets another thread in.
        if u32_exchange_acq_rel(&self._used, 1):
            raise RuntimeError("a scope is entered once")
        self._open = {}
        try:
            self._listening = listening(self._progress)
            self._listener = self._listening.__enter__()
            try:
                enter(&self._entry)
            except BaseException:
                self._listening.__exit__(None, None, None)
                raise
        except BaseException:
            u32_store_relaxed(&self._used, 0)
            raise
        # Between its operations the block is none, as ThreadPool.install's callable.
        self._entry.worker.operations -= 1
        self._worker = self._entry.worker
        self._pool = self._worker.pool
        self._thread = PyThread_get_thread_ident()
        i64_store_relaxed(&self._limit, INT64_MAX)
        i64_store_relaxed(&self._count, 0)
        scope_begin(self._worker, &self._scope)
        self._worker.part = &self._scope.part
        open_scopes[id(self)] = self
        block_begins(self)
        return self

    def __exit__(self, type, exc, traceback):
        cdef Worker* w = self._worker
        if self._ended:
            self._too_late(exc)
            return
        if w == NULL or self._thread != PyThread_get_thread_ident():
            raise RuntimeError("a scope must be left in the thread that entered it")
        if w != current_worker() and not pool_is_stale(self._pool) or (
                w.part != &self._scope.part or w.mark_of_call != self._scope.mark_of_call):
            raise RuntimeError("blocks must be left in the reverse order")
        if exc is not None:
            lower_limit(&self._limit, 0)
        stopped = self._end()
        block_ends(self)
        try:
            self._raise_failure(exc, stopped)
            if exc is None and self._listener is not None:
                self._listener.tell(True)
        finally:
            self._listening.__exit__(None, None, None)

    cdef int _end_left_open(self) except -1:
        lower_limit(&self._limit, 0)
        stopped = self._end()
        self._listening.__exit__(None, None, None)
        return self._raise_failure(None, stopped)

    cdef int _raise_failure(self, object exc, object stopped) except -1:
        """exc: what the block has raised, which comes out of it unless we raise, or None."""
        failure, self._failure = self._failure, None
        if self._interrupted:
            raise stopped
        # A block that only found a task dropped is not what failed.
        if exc is not None and (failure is None or isinstance(failure, Exception)
                                and not isinstance(exc, concurrent.futures.CancelledError)):
            return 0
        if failure is not None:
            raise failure
        if stopped is not None:
            raise stopped
        return 0

    cdef object _end(self):
        """Waits for all tasks.  What says that they were told to stop, or None."""
        cdef Worker* w = self._worker
        cdef void* error = NULL
        cdef int rc
        w.part = self._scope.part.outer
        w.operations += 1
        with nogil:
            rc = scope_end(w, &self._scope)
            if rc == -1:
                error = hooks().capture()
        if rc != 0:
            self._drop_rest()
        with nogil:
            if error != NULL:
                hooks().restore(error)
            self._interrupted = w.interrupt != NULL
            rc = leave(&self._entry, rc)
        self._worker = NULL
        open_scopes.pop(id(self), None)
        failure = None
        try:
            check(rc, "a scope")
        except BaseException as e:
            failure = e
        return failure

    cdef int _drop_rest(self) except -1:
        """It was told to stop: so tasks were dropped that know nothing of it, and who
        claimed one is no longer waited for."""
        cdef Spawned spawned
        cdef bint forked = pool_is_stale(self._pool)
        lower_limit(&self._limit, 0)
        for spawned in list(self._open.values()):
            if u32_cas_seq_cst(&spawned.state, WAITS, TAKEN):
                spawned.run(NULL)
            # Until the claim is done, not the future only: what that calls back may ask
            # whether it is wanted, which is to look at what this block is in.
            while True:
                try:
                    done = spawned.future.done()
                    if done and (forked or u32_load_seq_cst(&spawned.state) != CLAIMED):
                        break
                    if forked:
                        # It had begun in a thread that is not here.
                        spawned.future.set_exception(RuntimeError(
                            "this process was forked while the task ran in another thread"))
                    elif done:
                        serve_mail(current_worker())
                        time.sleep(0.001)
                    else:
                        wait_for(spawned.future)
                except BaseException as e:      # Ctrl-C: all the more
                    self._fail(0, e)
        self._open.clear()
        return 0

    cdef int _fail(self, int64_t index, object error) except -1:
        cdef int its_rank = rank_of_error(error)
        index = failed_from(index, error)
        lower_limit(&self._limit, index)
        with cython.critical_section(self):
            if self._failure is None or its_rank < self._failed_rank or (
                    its_rank == self._failed_rank and index < self._failed_at):
                self._failed_at = index
                self._failed_rank = its_rank
                # The old one goes when we return.
                error, self._failure = self._failure, error
        return 0

    def spawn(self, fn, /, *args, **kwargs):
        """Adds ``fn(*args, **kwargs)`` to the tasks.

        Parameters
        ----------
        fn : callable
            Runs once, in some thread of the pool, in a copy of the caller's context
            (so ``np.errstate`` holds in it too).  Where no other thread could run it,
            as in a pool of one, it runs here, before ``spawn`` returns to the block.
        *args, **kwargs
            Its arguments.

        Returns
        -------
        concurrent.futures.Future
            Asked for its ``result()`` or ``exception()``, without a timeout, it runs a
            task here that has not begun: so this does not wait for a thread.

        Raises
        ------
        TypeError
            When ``fn`` is not callable.
        RuntimeError
            When the block has ended, or this is called by anything but the block and
            its tasks.

        Notes
        -----
        A task that asks for its own result, or for that of one further out in its
        thread, gets a RuntimeError.

        Examples
        --------
        >>> import pyblitz as pb
        >>> def fib(n):
        ...     if n < 2:
        ...         return n
        ...     a = s.spawn(fib, n - 1)
        ...     return fib(n - 2) + a.result()
        >>> with pb.scope() as s:
        ...     fib(10)
        55
        """
        cdef Worker* w = current_worker()
        cdef Spawned spawned
        check_callable(fn, "fn")
        # First: only a worker of this pool keeps it while the share is given back.
        if w != NULL and self._pool != NULL and w.pool != self._pool:
            raise RuntimeError("spawn: this thread works for another pool than the scope's")
        # A share of our own, for whoever asks may come too late.
        if w == NULL or not count_try_up(&self._scope.latch):
            raise RuntimeError("spawn: not inside the block of this scope, nor in a task of it")
        try:
            spawned = Spawned()
            spawned.future = ScopeFuture()
            spawned.future._spawned = spawned
            spawned.context = contextvars.copy_context()
            spawned.home = self
            spawned.fn, spawned.args, spawned.kwargs = fn, args, kwargs
            u32_store_relaxed(&spawned.state, WAITS)
            spawned.level = mail_level(w)
            spawned.task.fn = run_spawned
            spawned.task.ctx = <void*>spawned
            spawned.task.memory = TASK_CALLERS
            # relaxed: a number of its own
            spawned.index = i64_fetch_add_relaxed(&self._count, 1)
            if self._listener is not None:
                # relaxed: a number; see call.pxd
                i64_fetch_add_relaxed(&self._listener.progress.total, 1)
            self._open[spawned.index] = spawned
            future = spawned.future
            with nogil:
                spawn_tasks(w, &self._scope, &spawned.task, 1)
                # The fence that a post of internal work does without: whoever waits for
                # the future as for any future relies on the others.
                fence_seq_cst()
                post_internal(&w.pool.sleep, &w.tasks)
        finally:
            self._give_back()
        if w == self._worker and self._inside == 0 and has_no_thief(w):
            self._inside += 1
            with nogil:
                run_own(w, &self._scope)
            self._inside -= 1
        return future

    cdef void _give_back(self) noexcept:
        cdef void* waiter = count_down(&self._scope.latch, 1)
        if waiter != NULL:
            wake_worker(<Worker*>waiter)


cdef bint has_no_thief(Worker* w) noexcept:
    """Whether nobody could steal its tasks."""
    cdef Pool* p = w.pool
    return p.n_background == <int>w.background or threads_refused(p) == p.n_background


cdef void run_own(Worker* w, Scope* s) noexcept nogil:
    """Its tasks of this scope, and what they leave."""
    cdef Job* job
    if not promote_all(w):
        return      # the end of the scope will do it
    while deque_looks(&w.tasks) > 0 and deque_bottom_tag(&w.tasks) == s:
        job = pop_task(w)
        if job == NULL:
            return
        execute(w, job)


def _end_scopes():
    """Ends blocks that nobody will leave, so that their pools can end: of generators
    that hang in this thread, or did in one that ended."""
    cdef scope s
    alive = sys._current_frames()
    for s in list(open_scopes.values())[::-1]:
        if (s._worker != NULL and not s._worker.background and not pool_is_stale(s._pool)
                and (s._thread == PyThread_get_thread_ident() or s._thread not in alive)):
            lower_limit(&s._limit, 0)
            s._end()
            s._ended = True
            block_ends(s)


atexit.register(_end_scopes)


# ---- spawn --------------------------------------------------------------------

def spawn(fn, /, *args, **kwargs):
    """Hands ``fn(*args, **kwargs)`` to the pool, and waits for nothing.

    Parameters
    ----------
    fn : callable
        Runs once, in some thread of the pool that an operation called here would use,
        in a copy of the caller's context (so ``np.errstate`` holds in it too).  A pool
        of one thread has nobody else: there ``fn`` runs before ``spawn`` returns.  If a job
        of such a pool calls ``spawn``, ``fn`` runs after that job, or when the job asks
        for the result.
    *args, **kwargs
        Its arguments.

    Returns
    -------
    concurrent.futures.Future

    Raises
    ------
    TypeError
        When ``fn`` is not callable.

    See Also
    --------
    ThreadPool.submit : the same in a pool of one's own; with keys.
    scope : tasks that are waited for, and stop together.

    Notes
    -----
    The caller's thread runs none of these tasks: in a pool of n threads, n - 1 run at a
    time.  The tasks of a `scope` are run by the thread that waits for them, too.

    A task that waits for the future of another one keeps its thread meanwhile, as in
    ``concurrent.futures``.  Where the pool has only one thread besides the caller's, the
    other task never gets one.  Tasks belong to no `CancelScope`.  At its end the
    interpreter waits for those that were spawned before.

    Examples
    --------
    >>> import pyblitz as pb
    >>> pb.spawn(pow, 2, 10).result()
    1024
    """
    cdef Pool* p
    check_callable(fn, "fn")
    with nogil:
        p = borrow()
    return submit_call(p, None, fn, args, kwargs, False, 0)
