"""When an idle worker yields, when it sleeps, and whom a poster wakes.

Guarantee: no job that is posted stays unseen while every worker sleeps, and an
idle pool costs no CPU time.  README.md beside this file has the protocol in
numbered steps, the table of memory orders and the proof.

After Rayon's sleep module (RFC 5), with two changes: one wake is in flight at
a time, and a worker that finds work passes the wake on (Zap's throttling,
kprotty 2021); and a worker whose thread was never started is a sleeper like
any other, whose wake starts it.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from pyblitz.runtime.atomic cimport atomic_i64, atomic_u32, unlikely
from pyblitz.runtime.counters cimport (
    Counters, count_jec, count_sleeping, counters_load)
from pyblitz.runtime.deque cimport Deque, deque_looks
from pyblitz.runtime.injector cimport Inbox, Injector
from pyblitz.runtime.latch cimport CoreLatch
from pyblitz.runtime.os cimport Parker, Place
from pyblitz.runtime.stats cimport WorkerTally

cdef enum SleeperState:
    SLEEPER_AWAKE = 0
    # Counted as sleeping, until somebody claims the wake by a compare-and-swap
    # to CLAIMED; the claimer, and nobody else, decrements `sleeping`.
    SLEEPER_ASLEEP = 1
    SLEEPER_DEAD = 2    # the system refused its thread, until `revive`
    # Claimed, and not yet uncounted: its owner waits until it is AWAKE.
    SLEEPER_CLAIMED = 3

cdef enum ThreadState:
    THREAD_NONE = 0
    THREAD_RUNS = 1
    THREAD_RETIRED = 2  # it ended after a long idle time, and can be joined

cdef struct Sleeper:
    atomic_u32 asleep   # SleeperState
    # Touched only by the claimer of a wake.
    ThreadState thread
    # Whether its thread was created and not joined.  Not `thread`, which a worker
    # that retires writes while the pool ends.
    atomic_u32 joinable
    Parker parker
    # Its owner's until it is ASLEEP, then its claimer's until it is AWAKE again.
    Place place
    WorkerTally stats   # its worker's
    # Set when the worker is to end.
    CoreLatch terminate
    # What the owner must look at before it blocks, besides the inbox.
    Injector mailbox    # also served while it waits
    Injector bound      # lanes: only by a worker with nothing on its stack

cdef struct Sleep:
    Counters counters
    Inbox* inbox
    Sleeper** sleepers
    int n_sleepers
    atomic_u32 hint     # where to look for the next one to wake
    atomic_u32 dead     # sleepers whose thread could not be started
    atomic_i64 tried    # when `revive` last tried, of now_ns
    # Sleepers from this one on retire when they have slept so long; negative:
    # none does.
    int keep
    int64_t retire_ns
    # How long a worker searches on, after its rounds, while that pays.
    int64_t spin_ns
    # When somebody last had work too short to wake another for it (of now_ns), how many such
    # came in a row, and after how many one is woken all the same.
    atomic_i64 wished
    atomic_i64 wishes
    atomic_i64 patience
    # When a worker that spins last looked late, and when that was the second time in a short while, so
    # that somebody else wants its CPU; of now_ns.
    atomic_i64 late
    atomic_i64 wanted
    # Whether who is called in may be given another CPU than its waker's; 0 when the system refused.
    atomic_u32 places
    # Starts the thread of sleeper i; false when the system refuses.
    bint (*start)(void* pool, int i) noexcept nogil
    void* pool

cdef struct Idle:
    # A worker's search.
    uint32_t rounds     # how many looks found nothing; of a large pool each counts for several
    uint32_t jec        # the jobs event counter when it got sleepy
    uint32_t looks      # at how many others it looked in all searches: decides when it yields
    int64_t spin        # for how many ns it searches on after the rounds
    int64_t begun       # since when it does so; 0: not yet; SPUN: no more
    int64_t looked      # when it looked last, since then

cdef enum:
    # Measured on two cores: fewer rounds lose the worker between the phases of
    # one array operation, more are felt by a neighbour.  They take two threads some 25 us.
    ROUNDS_UNTIL_SLEEPY = 128
    MOST_ROUNDS_OF_A_LOOK = 4
    # A look that comes so late gave the CPU to somebody else.  Two of them within so long: to somebody
    # who wants it, and nobody spins there for so long.
    LATE_NS = 200000
    LATE_AGAIN_NS = 50000000
    WANTED_NS = 250000000
    LEAST_SPIN_NS = 10000
    # Of wishes that follow each other so soon, who is woken at the second is still awake at the third.
    LATELY_NS = 200000
    SPUN = -1
    PATIENCE = 8
    MAX_PATIENCE = 1024
    # Between two trials to start threads that the system refused, and how many of
    # them one trial starts at most.
    REVIVE_NS = 1000000000
    REVIVE_AT_ONCE = 8

cdef void sleep_init(Sleep* s, Inbox* inbox, Sleeper** sleepers, int n,
                     bint (*start)(void*, int) noexcept nogil, void* pool) noexcept nogil
cdef void sleeper_init(Sleeper* s, bint asleep) noexcept nogil
cdef void sleeper_destroy(Sleeper* s) noexcept nogil

# works_on: whether the caller goes on with work of its own, so that who is woken is to have another CPU.
cdef void post_internal_slow(Sleep* s, bint queue_was_empty, bint works_on) noexcept nogil
cdef void post_injected(Sleep* s) noexcept nogil
cdef void post_moved(Sleep* s) noexcept nogil
cdef void post_mail(Sleep* s, int i) noexcept nogil
cdef bint post_bound(Sleep* s, int i, bint works_on) noexcept nogil
cdef bint wake_any(Sleep* s, bint works_on) noexcept nogil
cdef bint wake_sleeper(Sleep* s, int i, bint works_on) noexcept nogil
cdef void revive(Sleep* s) noexcept nogil

cdef void idle_init(Idle* idle) noexcept nogil
cdef void start_looking(Sleep* s, Idle* idle) noexcept nogil
cdef bint came_late(Sleep* s, Idle* idle, int64_t now) noexcept nogil
cdef bint spins_on(Sleep* s, Idle* idle, int64_t now) noexcept nogil
cdef void spin_after_sleep(const Sleep* s, Idle* idle, int64_t slept, int64_t now) noexcept nogil
cdef bint wished_for(Sleep* s, int64_t begun, int64_t now, bint* lately) noexcept nogil
cdef bint no_work_found(Sleep* s, int i, Idle* idle) noexcept nogil
cdef bint retire(Sleep* s, int i, Idle* idle) noexcept nogil

cdef inline bint must_post(Sleep* s) noexcept nogil:
    """Whether a push onto the caller's own deque has to be told: somebody sleeps,
    or was about to and has not been told of work since."""
    cdef uint64_t c = counters_load(&s.counters)
    return not (count_jec(c) & 1 == 1 and count_sleeping(c) == 0)

cdef inline void post_internal(Sleep* s, Deque* pushed) noexcept nogil:
    """After a push onto the caller's own deque.  No fence: a sleeper that
    misses the job costs speed, for the pusher itself runs it in the end."""
    if unlikely(must_post(s)):
        post_internal_slow(s, deque_looks(pushed) <= 1, True)
