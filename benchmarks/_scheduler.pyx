# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""What scheduler.py times: compiled by it, against the pyblitz that is installed,
like any author's module.
"""
from libc.stdlib cimport calloc, free
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, nanosleep, timespec
from pyblitz cimport (
    Scope, Task, Worker, join, join_lazy, parallel_for, run, scope, scope_map, spawn, spawn_many,
    submit, submit_keyed, task_init, tick)

cdef extern from *:
    """
    #include <sched.h>
    #include <semaphore.h>
    #if defined(__x86_64__) || defined(__i386__)
    #define pause_a_moment() __builtin_ia32_pause()
    #else
    #define pause_a_moment() ((void)0)
    #endif
    #define raise_flag(p) __atomic_store_n((p), 1, __ATOMIC_RELEASE)
    #define flag_is_up(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
    """
    void pause_a_moment() noexcept nogil
    void raise_flag(int*) noexcept nogil
    int flag_is_up(int*) noexcept nogil
    int sched_yield() noexcept nogil
    ctypedef struct sem_t:
        pass
    int sem_init(sem_t*, int, unsigned int) noexcept nogil
    int sem_post(sem_t*) noexcept nogil
    int sem_wait(sem_t*) noexcept nogil
    int sem_destroy(sem_t*) noexcept nogil

ctypedef int (*node_fn)(Worker*, void*) noexcept nogil

# One level of the tree.  All nodes of a level share it, and the function to call
# is read from it, so that the compiler inlines neither kind of tree.
cdef struct Level:
    node_fn fn
    Level* below            # NULL: a leaf


cdef int plain(Worker* w, void* ctx) noexcept nogil:
    cdef Level* below = (<Level*>ctx).below
    cdef node_fn fn
    if below == NULL:
        return 0
    fn = below.fn
    return fn(w, below) or fn(w, below)


cdef int forked(Worker* w, void* ctx) nogil:
    cdef Level* below = (<Level*>ctx).below
    if below == NULL:
        return 0
    return join(w, forked, below, forked, below)


cdef int lazy(Worker* w, void* ctx) nogil:
    cdef Level* below = (<Level*>ctx).below
    if below == NULL:
        return 0
    return join_lazy(w, lazy, below, lazy, below)


cdef class EmptyTree:
    """A full binary tree of empty leaves, ``depth`` levels of forks."""
    cdef Level* levels
    cdef readonly int depth
    cdef readonly long long joins

    def __cinit__(self, int depth):
        cdef int i
        if not 0 <= depth <= 40:
            raise ValueError(f"depth must be from 0 to 40, not {depth}")
        self.depth = depth
        self.joins = (<long long>1 << depth) - 1
        self.levels = <Level*>calloc(depth + 1, sizeof(Level))
        if self.levels == NULL:
            raise MemoryError()
        for i in range(depth + 1):
            self.levels[i].fn = plain
            self.levels[i].below = &self.levels[i - 1] if i else NULL

    def __dealloc__(self):
        free(self.levels)

    def plain(self):
        """Calls through a function pointer."""
        with nogil:
            self.levels[self.depth].fn(NULL, &self.levels[self.depth])

    def forked(self):
        """Joins, in the pool that is installed."""
        with nogil:
            run(forked, &self.levels[self.depth])

    def lazy(self):
        """Lazy joins, in the pool that is installed."""
        with nogil:
            run(lazy, &self.levels[self.depth])


cdef long fib_plain(long n) noexcept nogil:
    return n if n < 2 else fib_plain(n - 1) + fib_plain(n - 2)


# A number n, in whose place fib(n) is written.

cdef int fib_lazy(Worker* w, void* ctx) nogil:
    cdef long* n = <long*>ctx
    cdef long a, b
    if n[0] >= 2:
        a, b = n[0] - 1, n[0] - 2
        join_lazy(w, fib_lazy, &a, fib_lazy, &b)
        n[0] = a + b
    return 0


cdef int fib_forked(Worker* w, void* ctx) nogil:
    cdef long* n = <long*>ctx
    cdef long a, b
    if n[0] >= 2:
        a, b = n[0] - 1, n[0] - 2
        join(w, fib_forked, &a, fib_forked, &b)
        n[0] = a + b
    return 0


def fib(long n, str how):
    """fib(n) by ``how``: "plain" calls, "lazy" or eager ("forked") joins."""
    if how == "plain":
        with nogil:
            n = fib_plain(n)
    elif how == "lazy":
        with nogil:
            run(fib_lazy, &n)
    else:
        with nogil:
            run(fib_forked, &n)
    return n


cdef struct Node:
    Node* left
    Node* right
    long value


cdef struct Sum:
    Node* node
    long value


cdef int sum_plain(Worker* w, void* ctx) noexcept nogil:
    """The kernel below with calls for joins, through a pointer that keeps the
    compiler from inlining the recursion."""
    cdef Sum* s = <Sum*>ctx
    cdef Sum a, b
    cdef node_fn fn = the_sum_plain
    s.value = s.node.value
    a.node = s.node.left
    b.node = s.node.right
    if a.node != NULL:
        if fn(w, &a) != 0:
            return -1
        s.value += a.value
    if b.node != NULL:
        if fn(w, &b) != 0:
            return -1
        s.value += b.value
    return 0


cdef node_fn the_sum_plain = sum_plain


cdef int sum_lazy(Worker* w, void* ctx) nogil:
    cdef Sum* s = <Sum*>ctx
    cdef Sum a, b
    s.value = s.node.value
    a.node = s.node.left
    b.node = s.node.right
    if a.node == NULL or b.node == NULL:
        if a.node != NULL:
            sum_lazy(w, &a)
            s.value += a.value
        if b.node != NULL:
            sum_lazy(w, &b)
            s.value += b.value
        return 0
    join_lazy(w, sum_lazy, &a, sum_lazy, &b)
    s.value += a.value + b.value
    return 0


cdef int sum_forked(Worker* w, void* ctx) nogil:
    cdef Sum* s = <Sum*>ctx
    cdef Sum a, b
    s.value = s.node.value
    a.node = s.node.left
    b.node = s.node.right
    if a.node == NULL or b.node == NULL:
        if a.node != NULL:
            sum_forked(w, &a)
            s.value += a.value
        if b.node != NULL:
            sum_forked(w, &b)
            s.value += b.value
        return 0
    join(w, sum_forked, &a, sum_forked, &b)
    s.value += a.value + b.value
    return 0


cdef class Tree:
    """A balanced binary tree of ``n`` nodes, in one array, depth first."""
    cdef Node* nodes
    cdef readonly long n

    def __cinit__(self, long n):
        self.n = n
        self.nodes = <Node*>calloc(n, sizeof(Node))
        if self.nodes == NULL:
            raise MemoryError()
        self.build(0, n)

    cdef Node* build(self, long at, long n):
        cdef Node* node = &self.nodes[at]
        cdef long left = n // 2
        node.value = at
        node.left = self.build(at + 1, left) if left > 0 else NULL
        node.right = self.build(at + 1 + left, n - 1 - left) if n - 1 - left > 0 else NULL
        return node

    def __dealloc__(self):
        free(self.nodes)

    def sum(self, str how, long times=1):
        """The sum of all values, ``times`` over, each a call from outside."""
        cdef Sum s
        cdef long i
        s.node = self.nodes
        if how == "plain":
            with nogil:
                for i in range(times):
                    the_sum_plain(NULL, &s)
        elif how == "lazy":
            with nogil:
                for i in range(times):
                    run(sum_lazy, &s)
        else:
            with nogil:
                for i in range(times):
                    run(sum_forked, &s)
        return s.value


cdef int raise_it(Worker* w, void* ctx) noexcept nogil:
    raise_flag(<int*>ctx)
    return 0


cdef int post_it(Worker* w, void* ctx) noexcept nogil:
    sem_post(<sem_t*>ctx)
    return 0


cdef void submit_and_poll() noexcept nogil:
    """Polls, and gives its CPU away now and then: on two CPUs Linux often wakes
    the worker on the very CPU that polls, although the other is free, and the
    worker then waits there for the end of a time slice."""
    cdef int flag = 0
    cdef int polls = 0
    submit(raise_it, &flag)
    while not flag_is_up(&flag):
        polls += 1
        if polls & 63:
            pause_a_moment()
        else:
            sched_yield()


cdef void submit_and_block(sem_t* done) noexcept nogil:
    submit(post_it, done)
    while sem_wait(done) != 0:
        pass                    # interrupted


cdef double now_ns() noexcept nogil:
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return t.tv_sec * 1e9 + t.tv_nsec


def submit_ns(int jobs, double idle_seconds=0, bint blocking=False):
    """Nanoseconds from ``submit`` until the caller knows that the job is done,
    for each of ``jobs``, one after the other, with a pause before each.  The
    caller polls a flag or, ``blocking``, sleeps on a semaphore; without the GIL.
    In a pool of one thread the job runs in ``submit``."""
    cdef list times = []
    cdef int i
    cdef double start, end
    cdef timespec idle
    cdef sem_t done
    idle.tv_sec = <long>idle_seconds
    idle.tv_nsec = <long>((idle_seconds - idle.tv_sec) * 1e9)
    sem_init(&done, 0, 0)
    for i in range(jobs):
        with nogil:
            if idle_seconds > 0:
                nanosleep(&idle, NULL)
            start = now_ns()
            if blocking:
                submit_and_block(&done)
            else:
                submit_and_poll()
            end = now_ns()
        times.append(end - start)
    sem_destroy(&done)
    return times


cdef extern from *:
    """
    #include <pthread.h>
    #if defined(__linux__)
    #include <linux/futex.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    /* A thread that sleeps on a futex until it is woken, and says when it was. */
    typedef struct { int asleep, flag, end; } futex_ping;
    static void *futex_sleeper(void *arg) {
      futex_ping *p = (futex_ping *)arg;
      for (;;) {
        while (__atomic_load_n(&p->asleep, __ATOMIC_ACQUIRE) == 1)
          syscall(SYS_futex, &p->asleep, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
        if (__atomic_load_n(&p->end, __ATOMIC_ACQUIRE))
          return NULL;
        __atomic_store_n(&p->asleep, 1, __ATOMIC_RELEASE);
        __atomic_store_n(&p->flag, 1, __ATOMIC_RELEASE);
      }
    }
    static void futex_wake_one(futex_ping *p) {
      __atomic_store_n(&p->flag, 0, __ATOMIC_RELAXED);
      __atomic_store_n(&p->asleep, 0, __ATOMIC_RELEASE);
      syscall(SYS_futex, &p->asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
    #else
    typedef struct { int asleep, flag, end; } futex_ping;
    static void *futex_sleeper(void *arg) { (void)arg; return NULL; }
    static void futex_wake_one(futex_ping *p) { p->flag = 1; }
    #endif
    """
    ctypedef struct pthread_t:
        pass
    ctypedef struct futex_ping:
        int asleep, flag, end
    void* futex_sleeper(void*) noexcept nogil
    void futex_wake_one(futex_ping*) noexcept nogil
    int pthread_create(pthread_t*, void*, void* (*)(void*) noexcept nogil, void*) nogil
    int pthread_join(pthread_t, void**) nogil


def wake_ns(int times, double idle_seconds):
    """The latency of ``submit_ns`` without a scheduler: a thread that slept on a futex
    raises a flag."""
    cdef futex_ping p
    cdef pthread_t thread
    cdef timespec idle
    cdef double start, end
    cdef int polls, i
    cdef list found = []
    idle.tv_sec = 0
    idle.tv_nsec = <long>(idle_seconds * 1e9)
    p.asleep, p.flag, p.end = 1, 0, 0
    pthread_create(&thread, NULL, futex_sleeper, &p)
    for i in range(times):
        with nogil:
            nanosleep(&idle, NULL)
            polls = 0
            start = now_ns()
            futex_wake_one(&p)
            while not flag_is_up(&p.flag):
                polls += 1
                if polls & 63:
                    pause_a_moment()
                else:
                    sched_yield()
            end = now_ns()
        found.append(end - start)
    with nogil:
        nanosleep(&idle, NULL)
        p.end = 1
        futex_wake_one(&p)
        pthread_join(thread, NULL)
    return found


# ---- a loop of small iterations ----------------------------------------------

cdef unsigned long long work(unsigned long long seed, unsigned long long steps) noexcept nogil:
    """A chain of operations that each need the one before."""
    cdef unsigned long long i
    for i in range(steps):
        seed ^= seed << 13
        seed ^= seed >> 7
        seed ^= seed << 17
    return seed


cdef struct Loop:
    unsigned long long* out
    unsigned long long steps


cdef int loop_body(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi) noexcept nogil:
    cdef Loop* c = <Loop*>ctx
    cdef Py_ssize_t i
    for i in range(lo, hi):
        c.out[i] = work(i + 1, c.steps)
    return 0


def calibrate(double ns):
    """Steps of ``work`` that take about this long."""
    cdef double best = 1e18, start
    cdef int i
    cdef unsigned long long sink = 1
    for i in range(50):
        start = now_ns()
        sink = work(sink | 1, 20000)
        best = min(best, now_ns() - start)
    return max(1, <int>(ns * 20000 / best)) if sink else 1


def loop(Py_ssize_t n, unsigned long long steps, bint parallel):
    """Nanoseconds of n iterations."""
    cdef Loop c
    cdef double start, end
    c.steps = steps
    c.out = <unsigned long long*>calloc(n, sizeof(unsigned long long))
    with nogil:
        start = now_ns()
        if parallel:
            parallel_for(NULL, n, loop_body, &c, 0)
        else:
            loop_body(NULL, &c, 0, n)
        end = now_ns()
    free(c.out)
    return end - start


# ---- many tasks --------------------------------------------------------------

cdef int nothing(Worker* w, void* ctx) noexcept nogil:
    return 0


cdef struct Batch:
    Task* tasks
    Py_ssize_t n


cdef int spawn_each(Worker* w, Scope* s, void* ctx) nogil:
    cdef Py_ssize_t i
    for i in range((<Batch*>ctx).n):
        spawn(w, s, nothing, NULL)
    return 0


cdef int spawn_prepared(Worker* w, Scope* s, void* ctx) nogil:
    cdef Batch* b = <Batch*>ctx
    cdef Py_ssize_t i
    for i in range(b.n):
        task_init(&b.tasks[i], nothing, NULL)
    return spawn_many(w, s, b.tasks, b.n)


cdef int spawn_mapped(Worker* w, Scope* s, void* ctx) nogil:
    return scope_map(w, s, nothing, ctx, 0, (<Batch*>ctx).n)


def tasks(Py_ssize_t n, str how):
    """Nanoseconds of n empty tasks from the first spawn to the end of their scope."""
    cdef Batch b
    cdef double start, end
    b.n = n
    b.tasks = <Task*>calloc(n, sizeof(Task))
    if b.tasks == NULL:
        raise MemoryError()
    with nogil:
        if n:
            # Touched before: what a page costs is not the scheduler's.
            for i in range(n):
                task_init(&b.tasks[i], nothing, NULL)
    start = now_ns()
    if how == "spawn":
        with nogil:
            scope(NULL, spawn_each, &b)
    elif how == "spawn_many":
        with nogil:
            scope(NULL, spawn_prepared, &b)
    else:
        with nogil:
            scope(NULL, spawn_mapped, &b)
    end = now_ns()
    free(b.tasks)
    return end - start


# ---- jobs with keys ----------------------------------------------------------

cdef struct Counter:
    long next               # the number of the job that must come now
    long disorder
    char pad[48]


cdef struct Keyed:
    Counter* counter
    long number


cdef int keyed_job(Worker* w, void* ctx) noexcept nogil:
    """No lock: only jobs of this key touch its counter, one at a time."""
    cdef Keyed* k = <Keyed*>ctx
    k.counter.disorder += k.number != k.counter.next
    k.counter.next = k.number + 1
    return 0


cdef int finish(Worker* w, void* ctx) noexcept nogil:
    raise_last(<int*>ctx)
    return 0


cdef extern from *:
    """
    #define raise_last(p) __atomic_fetch_sub((p), 1, __ATOMIC_ACQ_REL)
    #define left(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
    """
    int raise_last(int*) noexcept nogil
    int left(int*) noexcept nogil


def keyed(Py_ssize_t jobs, Py_ssize_t keys):
    """(nanoseconds from the first submission until all are done, how many jobs ran
    out of order, how many ran)."""
    cdef Counter* counters
    cdef Keyed* all_jobs
    cdef Py_ssize_t i
    cdef int remaining = <int>keys
    cdef double start, end
    cdef long disorder = 0, ran = 0
    if jobs < 1 or keys < 1:
        raise ValueError("jobs and keys must be positive")
    counters = <Counter*>calloc(keys, sizeof(Counter))
    all_jobs = <Keyed*>calloc(jobs, sizeof(Keyed))
    for i in range(jobs):
        all_jobs[i].counter = &counters[i % keys]
        all_jobs[i].number = i // keys
    with nogil:
        start = now_ns()
        for i in range(jobs):
            submit_keyed(i % keys, keyed_job, &all_jobs[i])
        for i in range(keys):
            submit_keyed(i, finish, &remaining)
        while left(&remaining) > 0:
            sched_yield()
        end = now_ns()
    for i in range(keys):
        disorder += counters[i].disorder
        ran += counters[i].next
    free(counters)
    free(all_jobs)
    return end - start, disorder, ran


# ---- how soon a sibling starts -----------------------------------------------

cdef struct Siblings:
    double start
    double sibling
    double leaf_ns
    bint ticking


cdef int long_leaf(Worker* w, void* ctx) noexcept nogil:
    cdef Siblings* s = <Siblings*>ctx
    cdef unsigned long long sink = 1
    while now_ns() - s.start < s.leaf_ns:
        sink = work(sink, 300)
        if s.ticking:
            tick(w)
    return 0


cdef int sibling(Worker* w, void* ctx) noexcept nogil:
    (<Siblings*>ctx).sibling = now_ns()
    return 0


cdef int eager_siblings(Worker* w, void* ctx) nogil:
    return join(w, long_leaf, ctx, sibling, ctx)


cdef int lazy_siblings(Worker* w, void* ctx) nogil:
    return join_lazy(w, long_leaf, ctx, sibling, ctx)


def sibling_ns(double leaf_ns, str how):
    """Nanoseconds until the sibling of a long leaf starts; the pool sleeps."""
    cdef Siblings s
    s.leaf_ns = leaf_ns
    s.ticking = how == "lazy"
    s.start = now_ns()
    with nogil:
        run(lazy_siblings if s.ticking else eager_siblings, &s)
    return s.sibling - s.start
