# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""What prices.py times: single steps of the runtime and of the system.  Unlike an author's
module it looks into the runtime.

Where two threads take part, the caller is pinned to one CPU and starts the other thread on
``cpu``.  No pool is at work then: nothing here is what the simulator has to predict.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from posix.time cimport nanosleep, timespec
from pyblitz cimport Scope, Worker, parallel_for, run, scope, spawn
from pyblitz.runtime.atomic cimport (
    atomic_i64, atomic_ptr, atomic_u32, atomic_u64, i64_cas_seq_cst, i64_load_acquire,
    i64_store_relaxed, i64_store_release, ptr_load_acquire, ptr_store_relaxed, spin_hint,
    u32_fetch_add_seq_cst, u32_load_acquire, u32_store_relaxed, u32_store_release,
    u64_fetch_add_seq_cst)
from pyblitz.runtime.deque cimport (
    Deque, STEAL_TAKEN, deque_bottom, deque_destroy, deque_init, deque_looks, deque_offers,
    deque_pop, deque_push, deque_steal)
from pyblitz.runtime.injector cimport Injector, injector_has_jobs, injector_init
from pyblitz.runtime.job cimport Job
from pyblitz.runtime.latch cimport CoreLatch, latch_init, latch_is_set
from pyblitz.runtime.os cimport (
    Parker, Thread, alloc_aligned, membarrier, membarrier_register, now_ns, park, parker_destroy,
    parker_init, thread_create, thread_join, unpark, yield_thread)

# Results go here, so that the compiler leaves out no work.
cdef int64_t sink = 0


cdef void* zeroed(size_t size) except NULL:
    cdef void* p = alloc_aligned(size)
    if p == NULL:
        raise MemoryError()
    return p


cdef Thread started(void (*entry)(void*) noexcept nogil, void* arg, int cpu) except *:
    cdef Thread t
    cdef int rc = thread_create(&t, entry, arg, 0, cpu)
    if rc:
        raise OSError(rc, f"no thread on CPU {cpu}")
    return t


cdef inline void until(const atomic_u32* turn, uint32_t value) noexcept nogil:
    """Polls.  Yields seldom, for the case that both threads were given one CPU."""
    cdef int polls = 0
    # acquire: partner is the release store of whoever hands the turn over
    while u32_load_acquire(turn) != value:
        polls += 1
        if polls & 4095:
            spin_hint()
        else:
            yield_thread()


# ---- one thread ---------------------------------------------------------------

def clock_ns(int64_t n):
    cdef int64_t i, x = 0, start = now_ns()
    for i in range(n):
        x ^= now_ns()
    start = now_ns() - start
    global sink
    sink ^= x
    return start / <double>n


def atomic_ns(int64_t n):
    """A read-modify-write of a line that is in this core's cache."""
    cdef atomic_u64* word = <atomic_u64*>zeroed(128)
    cdef int64_t i, start = now_ns()
    for i in range(n):
        u64_fetch_add_seq_cst(word, 1)
    start = now_ns() - start
    free(word)
    return start / <double>n


def yielding_ns(int64_t n):
    cdef int64_t i, start = now_ns()
    with nogil:
        for i in range(n):
            yield_thread()
    return (now_ns() - start) / <double>n


def spin_ns(int64_t n):
    """What wait_for_fork does between two pauses, and the pause."""
    cdef Deque* thief = <Deque*>zeroed(sizeof(Deque))
    cdef Injector mailbox
    cdef CoreLatch latch
    cdef atomic_ptr runner
    cdef int64_t i, x = 0, start
    if not deque_init(thief, False):
        raise MemoryError()
    injector_init(&mailbox)
    latch_init(&latch)
    ptr_store_relaxed(&runner, thief)
    start = now_ns()
    for i in range(n):
        x += latch_is_set(&latch)
        x += deque_offers(<Deque*>ptr_load_acquire(&runner), &latch)
        x += injector_has_jobs(&mailbox)
        spin_hint()
    start = now_ns() - start
    deque_destroy(thief)
    free(thief)
    global sink
    sink += x
    return start / <double>n


cdef int nothing(Worker* w, void* ctx) noexcept nogil:
    return 0


cdef int empty_leaf(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi) noexcept nogil:
    return 0


def node_ns(int64_t n):
    """An inner node of the bridge with its share of the empty leaves (n, and n - 1 nodes), and
    the one look at the clock after each leaf.  In a pool of one thread."""
    cdef int64_t start = now_ns()
    with nogil:
        parallel_for(NULL, n, empty_leaf, NULL, 1)
    return (now_ns() - start) / <double>n


cdef enum:
    TASKS = 64


cdef int spawn_some(Worker* w, Scope* s, void* ctx) nogil:
    cdef int i
    for i in range(TASKS):
        spawn(w, s, nothing, NULL)
    return 0


cdef int scopes(Worker* w, void* ctx) nogil:
    cdef int64_t i
    for i in range((<int64_t*>ctx)[0]):
        scope(w, spawn_some, NULL)
    return 0


def task_ns(int64_t n):
    """A task that is spawned and run by its own worker, with its share of a scope of 64 and of
    that scope's count.  In a pool of one thread."""
    cdef int64_t times = n // TASKS
    cdef int64_t start = now_ns()
    with nogil:
        run(scopes, &times)
    return (now_ns() - start) / <double>(times * TASKS)


# ---- a cache line between two cores --------------------------------------------

cdef struct PingPong:
    atomic_i64 ball
    char _pad[128 - 8]
    int64_t trips


cdef void pong(void* arg) noexcept nogil:
    cdef PingPong* p = <PingPong*>arg
    cdef int64_t i
    for i in range(p.trips):
        while not i64_cas_seq_cst(&p.ball, 2 * i + 1, 2 * i + 2):
            pass


def transfer_ns(int64_t trips, int runs, int cpu):
    """One way of a compare-and-swap that goes to and fro, for each run of ``trips``."""
    cdef PingPong* p = <PingPong*>zeroed(sizeof(PingPong))
    cdef Thread other
    cdef int64_t i, k = 0, start
    cdef list found = []
    # The first run is not counted: the other thread starts in it.
    p.trips = trips * (runs + 1)
    other = started(pong, p, cpu)
    for run_ in range(runs + 1):
        with nogil:
            start = now_ns()
            for i in range(trips):
                while not i64_cas_seq_cst(&p.ball, 2 * k, 2 * k + 1):
                    pass
                k += 1
            start = now_ns() - start
        found.append(start / (2.0 * trips))
    with nogil:
        thread_join(other)
    free(p)
    return found[1:]


# ---- a sweep, and a theft -------------------------------------------------------

cdef enum:
    VICTIMS = 64
    OWNERS_TURN = 0
    THIEFS_TURN = 1
    THE_END = 2

cdef struct Victim:
    Deque forks
    Deque tasks
    Job job
    char _pad[128 - 16]

cdef struct Victims:
    atomic_u32 turn
    bint keep               # the owner leaves a job in each
    char _pad[128 - 8]
    Victim all[VICTIMS]


cdef void own_all(void* arg) noexcept nogil:
    """Pushes jobs onto each deque and pops them, but for the first if it is to stay there:
    an owner has looked at its own top."""
    cdef Victims* v = <Victims*>arg
    cdef Victim* one
    cdef int i
    while True:
        for i in range(VICTIMS):
            one = &v.all[i]
            one.job.run = NULL
            deque_push(&one.forks, deque_bottom(&one.forks), &one.job, NULL)
            if v.keep:
                deque_push(&one.forks, deque_bottom(&one.forks), &one.job, NULL)
            deque_pop(&one.forks)
        # release: partner is the load in until
        u32_store_release(&v.turn, THIEFS_TURN)
        while u32_load_acquire(&v.turn) == THIEFS_TURN:
            spin_hint()
        if u32_load_acquire(&v.turn) == THE_END:
            return


cdef inline Victim* victim(Victims* v, int i) noexcept nogil:
    """Neighbours in memory do not follow each other."""
    return &v.all[i * 37 & (VICTIMS - 1)]


cdef int64_t look_at_all(Victims* v) noexcept nogil:
    """One sweep over deques that are empty, which steal_from would leave alone; what it took,
    or -1 if there was something.  Looks do not wait for each other."""
    cdef Victim* one
    cdef int64_t found = 0, start = now_ns()
    cdef int i
    for i in range(VICTIMS):
        one = victim(v, i)
        found += deque_looks(&one.forks) > 0 or deque_looks(&one.tasks) > 0
    start = now_ns() - start
    return start if found == 0 else -1


cdef int64_t steal_from_all(Victims* v) noexcept nogil:
    """The sum of what each theft took, from the look that found the job until its function is
    known, each waited for; or -1 if one failed."""
    cdef Victim* one
    cdef Job* job
    cdef void* tag
    cdef int64_t took = 0, start
    cdef int i
    for i in range(VICTIMS):
        one = victim(v, i)
        if deque_looks(&one.forks) <= 0:
            return -1
        start = now_ns()
        if deque_steal(&one.forks, NULL, &job, &tag) != STEAL_TAKEN or job.run != NULL:
            return -1
        took += now_ns() - start
    return took


def sweep_ns(int sweeps, bint steal, int cpu):
    """Of sweeps over 64 victims the times for each victim, as a pair of lists: first looks at,
    or thefts from, deques that another core has just changed; then looks at the same once
    more.  Looks with one share of the clock in 64, thefts with a whole one."""
    cdef Victims* v = <Victims*>zeroed(sizeof(Victims))
    cdef Thread owner
    cdef int64_t changed, again
    cdef int i
    cdef list first = [], second = []
    v.keep = steal
    u32_store_relaxed(&v.turn, OWNERS_TURN)
    for i in range(VICTIMS):
        if not (deque_init(&v.all[i].forks, False) and deque_init(&v.all[i].tasks, False)):
            raise MemoryError()
    owner = started(own_all, v, cpu)
    for k in range(sweeps):
        with nogil:
            until(&v.turn, THIEFS_TURN)
            changed = steal_from_all(v) if steal else look_at_all(v)
            again = look_at_all(v)
            # release: partner is the load in own_all
            u32_store_release(&v.turn, THE_END if k == sweeps - 1 else OWNERS_TURN)
        if changed < 0 or again < 0:
            raise RuntimeError("a sweep did not find what was there")
        first.append(changed / <double>VICTIMS)
        second.append(again / <double>VICTIMS)
    with nogil:
        thread_join(owner)
    for i in range(VICTIMS):
        deque_destroy(&v.all[i].forks)
        deque_destroy(&v.all[i].tasks)
    free(v)
    return first, second


# ---- waking ---------------------------------------------------------------------

cdef struct Slept:
    Parker parker
    atomic_u32 over
    char _pad[128]
    atomic_i64 ran          # when it was awake; 0 before


cdef void sleep_and_tell(void* arg) noexcept nogil:
    cdef Slept* s = <Slept*>arg
    while True:
        park(&s.parker, -1)
        if u32_load_acquire(&s.over):
            return
        # release: partner is the load in wakes_ns
        i64_store_release(&s.ran, now_ns())


def wakes_ns(int times, int64_t idle_ns, int cpu):
    """Pairs: what unpark took its caller, and from its call until the sleeper ran, which had
    been parked for ``idle_ns``."""
    cdef Slept* s = <Slept*>zeroed(sizeof(Slept))
    cdef Thread sleeper
    cdef timespec idle
    cdef int64_t start, called, ran
    cdef list found = []
    idle.tv_sec = idle_ns // 1000000000
    idle.tv_nsec = idle_ns % 1000000000
    parker_init(&s.parker)
    sleeper = started(sleep_and_tell, s, cpu)
    for _ in range(times):
        with nogil:
            i64_store_relaxed(&s.ran, 0)
            if idle_ns >= 1000000:
                nanosleep(&idle, NULL)      # as the waker has had nothing to do, either
            else:
                start = now_ns()
                while now_ns() - start < idle_ns:
                    spin_hint()
            start = now_ns()
            unpark(&s.parker)
            called = now_ns()
            ran = 0
            while ran == 0:
                # acquire: partner is the store in sleep_and_tell
                ran = i64_load_acquire(&s.ran)
        found.append((called - start, ran - start))
    with nogil:
        u32_store_release(&s.over, 1)
        unpark(&s.parker)
        thread_join(sleeper)
    parker_destroy(&s.parker)
    free(s)
    return found


# ---- membarrier -------------------------------------------------------------------

cdef enum:
    CHUNKS = 64
    AT_MOST = 65536

cdef struct Interrupted:
    atomic_i64 calls        # membarriers so far
    char _pad[128 - 8]
    atomic_u32 chunks       # done: the first half of them without a membarrier
    int64_t steps
    int64_t took[CHUNKS]
    int64_t met[CHUNKS]     # the calls meanwhile
    uint64_t result
    int64_t times[AT_MOST]


cdef void work_on(void* arg) noexcept nogil:
    """Chunks of work of equal length."""
    cdef Interrupted* p = <Interrupted*>arg
    cdef uint64_t x = 88172645463325252ULL
    cdef int64_t i, start, calls
    cdef int k
    for k in range(CHUNKS):
        calls = i64_load_acquire(&p.calls)
        start = now_ns()
        for i in range(p.steps):
            x ^= x << 13
            x ^= x >> 7
            x ^= x << 17
        p.took[k] = now_ns() - start
        p.met[k] = i64_load_acquire(&p.calls) - calls
        # release: partner is the load in revocations_ns
        u32_store_release(&p.chunks, k + 1)
    p.result = x


def revocations_ns(int64_t steps, int cpu):
    """(what each membarrier took its caller, what chunks of work took undisturbed, pairs of
    what others took and how many membarriers fell into them).  None where the system has
    none."""
    cdef Interrupted* p
    cdef Thread owner
    cdef int64_t n = 0, start
    cdef int k
    if not membarrier_register():
        return None
    p = <Interrupted*>zeroed(sizeof(Interrupted))
    p.steps = steps
    owner = started(work_on, p, cpu)
    with nogil:
        while u32_load_acquire(&p.chunks) < CHUNKS // 2:
            spin_hint()
        while u32_load_acquire(&p.chunks) < CHUNKS:
            start = now_ns()
            membarrier()
            start = now_ns() - start
            if n < AT_MOST:
                p.times[n] = start
            n += 1
            # release: partner is the load in work_on
            i64_store_release(&p.calls, n)
        thread_join(owner)
    found = ([p.times[k] for k in range(min(n, AT_MOST))],
             [p.took[k] for k in range(CHUNKS // 2)],
             # The first may have begun before the first call.
             [(p.took[k], p.met[k]) for k in range(CHUNKS // 2 + 1, CHUNKS)])
    free(p)
    return found


# ---- memory -----------------------------------------------------------------------

cdef struct Stream:
    atomic_u32* ready
    uint32_t threads
    double* to
    double* source
    Py_ssize_t n
    int rounds
    int64_t begun
    int64_t ended


cdef void scale(double* to, const double* source, Py_ssize_t n, double by) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        to[i] = by * source[i]


cdef void stream(void* arg) noexcept nogil:
    cdef Stream* s = <Stream*>arg
    cdef Py_ssize_t i
    for i in range(s.n):
        s.source[i] = i
    scale(s.to, s.source, s.n, 1.0)
    u32_fetch_add_seq_cst(s.ready, 1)
    until(s.ready, s.threads)
    s.begun = now_ns()
    for i in range(s.rounds):
        scale(s.to, s.source, s.n, 2.0 + i)
    s.ended = now_ns()


def bandwidth(list cpus, Py_ssize_t n, int rounds):
    """Bytes per ns, read and written, of to[i] = by * source[i]: one thread on each CPU, each
    with two arrays of n doubles of its own."""
    cdef atomic_u32 ready
    cdef Stream[8] all_
    cdef Thread[8] threads
    cdef int k, count = len(cpus)
    cdef int64_t begun, ended
    if not 1 <= count <= 8:
        raise ValueError("1 to 8 CPUs")
    u32_store_relaxed(&ready, 0)
    for k in range(count):
        all_[k].ready = &ready
        all_[k].threads = count
        all_[k].to = <double*>malloc(n * sizeof(double))
        all_[k].source = <double*>malloc(n * sizeof(double))
        all_[k].n = n
        all_[k].rounds = rounds
        if all_[k].to == NULL or all_[k].source == NULL:
            raise MemoryError()
    for k in range(count):
        threads[k] = started(stream, &all_[k], cpus[k])
    for k in range(count):
        with nogil:
            thread_join(threads[k])
    begun, ended = all_[0].begun, all_[0].ended
    for k in range(count):
        begun = min(begun, all_[k].begun)
        ended = max(ended, all_[k].ended)
        free(all_[k].to)
        free(all_[k].source)
    return 16.0 * n * rounds * count / (ended - begun)
