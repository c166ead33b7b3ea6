"""Workers and the pool: find-work order, guests, lazily started threads,
shutdown, fork.

A pool of ``num_threads = n`` has n - 1 background workers.  A thread that
calls in becomes a worker itself, in a guest slot, for as long as its call
lasts: it runs the root of its operation, and the background workers steal from
it.  A guest takes no job that is not below its own call, so callers never run
each other's work.

``Worker`` and ``Pool`` refer to each other, so both live here.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from pyblitz.runtime.atomic cimport (
    atomic_i64, atomic_ptr, atomic_u32, atomic_u64, invariant, u32_load_relaxed, unlikely)
from pyblitz.runtime.call cimport Call, Part, Stop
from pyblitz.runtime.deque cimport Deque, deque_bottom, deque_pop, deque_push
from pyblitz.runtime.injector cimport Inbox, Injector
from pyblitz.runtime.job cimport Job
from pyblitz.runtime.lazy cimport Lazy, LazyList, lazy_any
from pyblitz.runtime.latch cimport LATCH_SLEEPING, SpinLatch
from pyblitz.runtime.os cimport LockLatch, Thread, unpark
from pyblitz.runtime.sleep cimport Sleep, Sleeper, post_internal

cdef enum:
    GUEST_SLOTS = 64            # bits of GuestBlock.taken
    GUEST_BLOCKS = 256
    POLL_INTERVAL_NS = 20000000
    POLL_LATER = 1              # an interval after the first look at the clock
    SPIN_ROUNDS = 256           # looks before a waiting worker sleeps

# What a task is part of: the beginning of its scope, and its tag.
cdef struct Group:
    Injector put_away   # tasks of this group that others had to lay aside
    Worker* owner       # who ends it
    # Of its mail: one more than that of the call that made the scope.  What its mail
    # leads to has this level, too, on whatever worker; so a worker that waits in a
    # call of level n needs no mail but that of levels above n, and serves no other
    # (where it waits for a future, parts of broadcasts of any level, too, which then have the
    # level of that wait at least): its stack is as deep as scopes are within each other.
    int level

# What a fork runs.  0 is success; -1 says that an exception was raised, as
# Cython's `except? -1` does; any other value is the kernel's own code.
ctypedef int (*fork_fn)(Worker* w, void* ctx) noexcept nogil

cdef enum Mail:
    NO_MAIL = 0
    MAIL_OR_NOBODY      # where its worker has no thread, it does not run
    MAIL_OR_ANYBODY     # ... it is put away, where the end of its scope finds it

cdef struct Task:
    Job job             # first: a Job* of this task is its Task*
    fork_fn fn
    void* ctx
    uint32_t memory     # TaskMemory of scope.pxd
    Mail mail
    Group* group        # the beginning of its scope
    int64_t parts       # this one and those behind it
    size_t stride       # from one part's ctx to the next's, in bytes

cdef struct Fork:
    Lazy lazy               # first: a Job* or Lazy* of this fork is its Fork*
    # The next two belong to the beat (join.pyx).  A beat that sees this fork puts a mark
    # in the place of `fn`, keeps `fn` here, and notes the time.
    void* waiting_fn
    int64_t waiting_since
    # -- the rest is written when the fork is promoted, and not before
    uint64_t published      # FORK_PUBLISHED ^ its address, until it is joined
    SpinLatch latch
    # First the maker's Worker.mark_of_call; after a theft, the Worker that runs the fork.
    atomic_ptr runner
    int rc                  # written by the thief before it sets the latch
    void* error             # the exception, when rc is -1

cdef struct Worker:
    # -- the owner's, touched at every fork
    # Must be the first field: extensions see a Worker as its list of lazy forks.  Every fork in
    # `forks` is older than every fork in this list.
    LazyList lazy
    # The beat (join.pyx): how long the fuse was, and when it last burnt down.
    uint32_t fuse_length
    int64_t last_beat
    bint fresh                  # runs a stolen job that has not shared anything
    # Forked jobs, strictly last in, first out: join pops back what it pushed.
    # The tag is the job below which a fork was made (`base` at the push).
    Deque forks
    # Spawned tasks; the tag is their scope.
    Deque tasks
    Pool* pool
    Job* base                   # the job that this worker took and now runs
    SpinLatch* awaited          # base's latch, if base is a fork
    # The address of the Call that this worker's present work belongs to, plus 1.  The 1
    # tells it from the address of a Worker (Fork.runner holds either).
    void* mark_of_call
    Part* part                  # the part of that call that it is in the middle of, or NULL
    # Whether the bridge promotes each fork at once.  A guest begins with False: its first
    # leaves may be all there is to do.
    bint sharing
    uint32_t leaves             # how many leaves it ran whose size is found by time
    bint background             # has a thread of its own
    int cpu                     # the CPU that its thread is to run on; negative: any
    int index                   # among the background workers, or guests
    uint64_t rng
    uint32_t searches           # how many searches it made: decides where the next begins (find_work)
    # Mail taken from the mailbox and not yet run: the highest level first, and in each
    # level the oldest.
    Job* mail
    Job* last_mail
    int least_level             # of the part of a broadcast that it is about to run, see Group
    Job* bound                  # taken from the bound jobs, the oldest first
    # A guest that runs jobs for a pool without threads, and what they submitted
    # meanwhile, oldest first.
    bint runs_here
    Job* queued
    Job* last_queued
    # Signals: 0, or when to look next (a guest in Python's main thread).
    int64_t poll_at
    # -- a guest's: its call, if that can be stopped, and what a signal handler
    # raised, which comes out where the outermost of its operations ends.
    Call call
    int operations              # how many operations it is inside of, one within the other
    void* interrupt
    Worker* outer               # the worker that this thread was before
    # Where its tasks ended when the job began that it runs on top of a wait, or
    # where older ones were taken since: what is above is that job's.
    int64_t tasks_kept
    Job* free_tasks             # memory of tasks that ran here (scope.pyx)
    int n_free_tasks
    Sleeper sleeper
    Thread thread
    # Written by others.  Set by whoever is hungry, cleared by the owner's beat.
    atomic_u32 asked

cdef struct GuestBlock:
    atomic_u64 taken            # bit i: guest i is somebody's
    Worker* guests[GUEST_SLOTS]

cdef struct Pool:
    Sleep sleep                 # who sleeps, who searches
    Inbox inbox                 # jobs from threads that are no workers
    # GuestBlock*, or NULL from some block on: a block is made when those before it
    # are full, and freed with the pool, for whoever set a latch of one of its guests
    # may still be about to unpark that one.
    atomic_ptr guests[GUEST_BLOCKS]
    # Calls inside, plus injected jobs not yet done, plus POOL_CLOSED.
    atomic_i64 users
    void* lanes                 # Lane*; whoever made the pool owns them
    Worker** workers            # n_background of them
    Sleeper** sleepers          # theirs
    int n_background            # the number of workers that have threads
    bint asymmetric             # whether deques of forks may be biased
    int64_t generation          # the process, counted in forks, that made it
    LockLatch quiet             # set when closed and no user is left
    atomic_i64 threads          # that run, or are about to: they use this memory

cdef extern from *:
    """
    #ifndef PB_POOL_CLOSED
    #define PB_POOL_CLOSED ((int64_t)1 << 62)
    #endif
    """
    int64_t POOL_CLOSED "PB_POOL_CLOSED"    # in Pool.users, above any number of users

# What the runtime asks of the language above it; each may be called from any
# thread, without any lock held.  An `error` is an exception that was caught.
cdef struct Hooks:
    void* (*capture)() noexcept nogil               # takes this thread's exception
    void (*restore)(void* error) noexcept nogil     # raises it here, and frees it
    void (*drop)(void* error) noexcept nogil        # frees it
    void (*stop)(Stop why) noexcept nogil           # raises what says that
    bint (*is_raised)() noexcept nogil              # whether one is set here
    int (*poll)() noexcept nogil                    # signals; -1: an exception is set
    bint (*thread_start)() noexcept nogil           # of a thread's life; false: no memory
    void (*thread_stop)() noexcept nogil            # also where there never was memory
    bint (*is_main_thread)() noexcept nogil
    void (*exit_child)() noexcept nogil             # ends the process
    # Around a sleep, of what others may need to wake this thread: a lock of the language
    # that it holds, or NULL.
    void* (*let_go)() noexcept nogil
    void (*take_back)(void* held) noexcept nogil
    # Of a worker whose function has_left_open; -1: an exception is set, the function's or one of
    # such a block.
    int (*end_left_open)(Worker* w, Part* part, void* mark) noexcept nogil

cdef const Hooks* hooks() noexcept nogil
cdef void set_hooks(const Hooks* h) noexcept nogil

cdef Pool* pool_new(int num_threads, bint asymmetric, void* lanes) noexcept nogil
cdef void pool_retire(Pool* p) noexcept nogil
cdef void pool_join(Pool* p) noexcept nogil
cdef bint pool_ended(Pool* p) noexcept nogil
cdef void pool_free(Pool* p) noexcept nogil
cdef int64_t process_generation() noexcept nogil
cdef bint pool_is_stale(const Pool* p) noexcept nogil

cdef Worker* current_worker() noexcept nogil
cdef Worker* pool_enter(Pool* p) noexcept nogil
cdef Worker* enter_as_user(Pool* p) noexcept nogil
cdef void pool_leave(Worker* w) noexcept nogil
cdef bint add_user(Pool* p) noexcept nogil
cdef void share_inside(Pool* p) noexcept nogil
cdef void pool_post(Pool* p, Job* job) noexcept nogil
cdef void look_after_orphans(Pool* p) noexcept nogil
cdef void pool_run_here(Pool* p, Job* job) noexcept nogil
cdef bint pool_help_here(Pool* p) noexcept nogil
cdef int pool_places(Pool* p) noexcept nogil
cdef Worker* pool_worker(Pool* p, int i) noexcept nogil
cdef int threads_refused(const Pool* p) noexcept nogil
cdef void job_done(Pool* p) noexcept nogil

cdef void execute(Worker* w, Job* job) noexcept nogil
cdef bint has_mail(Worker* w) noexcept nogil
cdef void serve_mailbox(Worker* w) noexcept nogil
cdef void serve_broadcasts(Worker* w) noexcept nogil
cdef void wake_worker(Worker* w) noexcept nogil
cdef Job* steal_task(Worker* w, Group* group) noexcept nogil
cdef void put_away(Job* job, Group* other) noexcept nogil
cdef void put_tasks_away(Worker* w, int64_t end) noexcept nogil
cdef void execute_waiting(Worker* w, Job* job) noexcept nogil
cdef bint must_stop(Worker* w, int64_t now) noexcept nogil
cdef bint must_stop_waiting(Worker* w, bint told) noexcept nogil
cdef void set_thread_call(Call* c) noexcept nogil
cdef Call* thread_call() noexcept nogil

cdef inline Call* call_of(void* mark) noexcept nogil:
    return <Call*>(<size_t>mark - 1)

cdef inline Call* current_call(Worker* w) noexcept nogil:
    return call_of(w.mark_of_call)

cdef inline int mail_level(Worker* w) noexcept nogil:
    """Of what this worker runs: see Group."""
    cdef Call* c = current_call(w)
    return c.level if c != NULL else 0

cdef inline void* mark_of(Call* c) noexcept nogil:
    return <void*>(<size_t>c + 1)

cdef inline void change_call(Worker* w, Call* c) noexcept nogil:
    """Forks that are promoted later get the call of then: so where there are lazy ones, it stays."""
    invariant(not lazy_any(&w.lazy), "a call changes where there is no lazy fork")
    w.mark_of_call = mark_of(c)

cdef inline bint has_left_open(Worker* w, const Part* part, void* mark) noexcept nogil:
    """Whether a function that this worker has called entered a block, and returned without leaving
    it: part and mark_of_call were these before."""
    return w.part != part or w.mark_of_call != mark or current_worker() != w

cdef inline bint is_mark(void* runner) noexcept nogil:
    return <size_t>runner & 1

cdef inline void tell_waiter(const SpinLatch* awaited) noexcept nogil:
    """Whoever waits for the fork that we run may help with what we just pushed.
    No fence: a waiter that misses this hint sleeps until the next one."""
    # relaxed: the latch lives, for its fork is not done
    if unlikely(u32_load_relaxed(&awaited.core.state) == LATCH_SLEEPING):
        unpark(&(<Worker*>awaited.owner).sleeper.parker)

cdef inline void tell_of_fork(Worker* w) noexcept nogil:
    """After a push onto `forks`."""
    post_internal(&w.pool.sleep, &w.forks)
    if unlikely(w.awaited != NULL):
        tell_waiter(w.awaited)

cdef inline bint push_fork(Worker* w, int64_t b, Job* job) noexcept nogil:
    """Makes a fork stealable, b = deque_bottom(&w.forks).  False when there was no
    memory for it."""
    if not deque_push(&w.forks, b, job, w.base):
        return False
    tell_of_fork(w)
    return True

cdef inline int64_t tasks_end(Worker* w) noexcept nogil:
    """Owner: where its tasks end now."""
    return deque_bottom(&w.tasks)

cdef inline Job* pop_task(Worker* w) noexcept nogil:
    """Owner: its newest task, or NULL."""
    cdef Job* job = deque_pop(&w.tasks)
    if tasks_end(w) < w.tasks_kept:
        w.tasks_kept = tasks_end(w)
    return job
