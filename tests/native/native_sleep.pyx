"""The sleep protocol alone: workers that do nothing but look for numbered jobs."""
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free
from pyblitz.runtime.atomic cimport (
    atomic_i64, i64_fetch_sub_acq_rel, i64_fetch_add_relaxed, i64_load_acquire,
    i64_load_relaxed, i64_store_relaxed, spin_hint, u32_load_seq_cst)
from pyblitz.runtime.counters cimport (
    count_inactive, count_jec, count_sleeping, counters_init, counters_load,
    sub_inactive)
from pyblitz.runtime.injector cimport (
    Inbox, inbox_init, inbox_push, inbox_take, injector_push, injector_take)
from pyblitz.runtime.job cimport Job
from pyblitz.runtime.latch cimport latch_is_set, latch_set
from pyblitz.runtime.os cimport alloc_aligned, now_ns, yield_thread
from pyblitz.runtime.sleep cimport (
    SLEEPER_ASLEEP, SLEEPER_AWAKE, SLEEPER_DEAD, Idle, Sleep, Sleeper,
    THREAD_NONE, THREAD_RUNS, came_late, idle_init, no_work_found, post_injected, post_mail, post_moved, sleep_init,
    sleeper_destroy, sleeper_init, spin_after_sleep, spins_on, start_looking, wake_any, wake_sleeper, wished_for)

AWAKE, ASLEEP, DEAD = SLEEPER_AWAKE, SLEEPER_ASLEEP, SLEEPER_DEAD


cdef struct TestJob:
    Job job
    atomic_i64* done
    atomic_i64* returned    # ran without a worker

cdef void run_test_job(void* worker, Job* job) noexcept nogil:
    cdef TestJob* t = <TestJob*>job
    if worker == NULL:
        i64_fetch_add_relaxed(t.returned, 1)
    i64_fetch_sub_acq_rel(t.done, -1)


def spins(int64_t spin_ns, events):
    """Of one worker: for each ("slept", how long, now), for how long it would spin; for each
    ("looks", how often, now, each how much later), how often it looks on after that; for each
    ("finds", ..., how late) the same, and then it finds work; for each ("wish", since, now) whether
    it is to be woken, and for each ("wish again", since, now) whether it follows another soon.
    ("wanted", 0, now): somebody wants the CPU."""
    cdef Sleep s
    cdef Idle idle
    cdef int64_t k, looks
    cdef bint lately = False
    sleep_init(&s, NULL, NULL, 0, NULL, NULL)
    s.spin_ns = spin_ns
    idle_init(&idle)
    found = []
    for what, length, now, *later in events:
        looks = 0
        if what == "wish":
            found.append(wished_for(&s, length, now, &lately))
            continue
        if what == "wish again":
            lately = False
            wished_for(&s, length, now, &lately)
            found.append(lately)
            continue
        if what == "wanted":
            i64_store_relaxed(&s.wanted, now)
            continue
        if what == "slept":
            spin_after_sleep(&s, &idle, length, now)
            found.append(idle.spin)
            continue
        idle.begun = 0
        for k in range(length):
            if not spins_on(&s, &idle, now + k * <int64_t>later[0]):
                break
            looks += 1
        found.append(looks)
        if what == "finds":
            if idle.begun > 0:
                came_late(&s, &idle, idle.looked + <int64_t>later[1])
            start_looking(&s, &idle)
            sub_inactive(&s.counters)
    return found


cdef class Dormitory:
    """n sleepers, whose threads start when `refuse` has no bit for them.  With `awake` the
    threads are there already: each calls live(i)."""
    cdef Sleep* s
    cdef Inbox* inbox
    cdef Sleeper** sleepers
    cdef int n
    cdef uint64_t refuse
    cdef atomic_i64 done
    cdef atomic_i64 returned
    cdef atomic_i64 slept
    cdef readonly list started

    def __cinit__(self, int n, bint awake=False, uint64_t refuse=0):
        self.n = n
        self.refuse = refuse
        self.started = []
        i64_store_relaxed(&self.done, 0)
        i64_store_relaxed(&self.returned, 0)
        i64_store_relaxed(&self.slept, 0)
        self.s = <Sleep*>alloc_aligned(sizeof(Sleep))
        self.inbox = <Inbox*>alloc_aligned(sizeof(Inbox))
        self.sleepers = <Sleeper**>calloc(n, sizeof(Sleeper*))
        inbox_init(self.inbox)
        for i in range(n):
            self.sleepers[i] = <Sleeper*>alloc_aligned(sizeof(Sleeper))
            sleeper_init(self.sleepers[i], not awake)
            self.sleepers[i].thread = THREAD_RUNS if awake else THREAD_NONE
        sleep_init(self.s, self.inbox, self.sleepers, n, start, <void*>self)
        if awake:
            counters_init(&self.s.counters, 0)

    def __dealloc__(self):
        for i in range(self.n):
            sleeper_destroy(self.sleepers[i])
            free(self.sleepers[i])
        free(self.sleepers)
        free(self.inbox)
        free(self.s)

    @property
    def fields(self):
        """sleeping, inactive, jec"""
        cdef uint64_t c = counters_load(&self.s.counters)
        return count_sleeping(c), count_inactive(c), count_jec(c)

    @property
    def states(self):
        return [u32_load_seq_cst(&self.sleepers[i].asleep) for i in range(self.n)]

    @property
    def dead(self):
        return u32_load_seq_cst(&self.s.dead)

    @property
    def counts(self):
        """(jobs done, of them returned by dead workers)"""
        return i64_load_acquire(&self.done), i64_load_acquire(&self.returned)

    def wake_any(self):
        return wake_any(self.s, True)

    def wake(self, int i):
        return wake_sleeper(self.s, i, True)

    def mail_once(self, int i):
        cdef TestJob job
        self.job_init(&job)
        injector_push(&self.sleepers[i].mailbox, &job.job)
        post_mail(self.s, i)
        return injector_take(&self.sleepers[i].mailbox) == NULL

    cdef void job_init(self, TestJob* job) noexcept nogil:
        job.job.run = run_test_job
        job.done = &self.done
        job.returned = &self.returned

    def live(self, int i):
        """A worker's life, until it is told to end: how often it found something."""
        cdef Idle idle
        cdef Job* job
        cdef Job* next
        cdef bint more, moved
        cdef int64_t found = 0
        with nogil:
            idle_init(&idle)
            start_looking(self.s, &idle)
            while True:
                job = injector_take(&self.sleepers[i].mailbox)
                if job == NULL:
                    moved = False
                    job = inbox_take(self.inbox, &more, &moved)
                    if moved:
                        post_moved(self.s)
                    if job != NULL:
                        job.next = NULL     # one at a time; the rest is the inbox's
                if job != NULL:
                    sub_inactive(&self.s.counters)
                    while job != NULL:
                        next = job.next
                        job.run(<void*>self, job)
                        job = next
                    found += 1
                    start_looking(self.s, &idle)
                elif latch_is_set(&self.sleepers[i].terminate):
                    sub_inactive(&self.s.counters)
                    break
                else:
                    no_work_found(self.s, i, &idle)
        return found

    def post(self, int64_t jobs, int mail_to=-1):
        """Posts one after the other, each when the last is done: a wake that is lost is a
        hang.  To the inbox, or to a mailbox.  Half of them when somebody sleeps; the
        others at any moment while a worker searches and falls asleep."""
        cdef TestJob job
        cdef int64_t k, j
        cdef atomic_i64 mine
        cdef int to = mail_to
        cdef uint64_t random = 88172645463325252u
        cdef int64_t until
        with nogil:
            self.job_init(&job)
            job.done = &mine
            for k in range(jobs):
                i64_store_relaxed(&mine, 0)
                if k & 1:
                    for j in range(1000):
                        if count_sleeping(counters_load(&self.s.counters)):
                            break
                        yield_thread()
                else:
                    random ^= random << 13
                    random ^= random >> 7
                    random ^= random << 17
                    until = now_ns() + <int64_t>(random % 30000)
                    while now_ns() < until:
                        spin_hint()
                i64_fetch_add_relaxed(&self.slept,
                                      count_sleeping(counters_load(&self.s.counters)) != 0)
                if to < 0:
                    inbox_push(self.inbox, &job.job)
                    post_injected(self.s)
                else:
                    injector_push(&self.sleepers[to].mailbox, &job.job)
                    post_mail(self.s, to)
                while not i64_load_acquire(&mine):
                    yield_thread()
        return i64_load_relaxed(&self.slept)

    def end(self):
        for i in range(self.n):
            if latch_set(&self.sleepers[i].terminate):
                wake_sleeper(self.s, i, True)


cdef bint start(void* pool, int i) noexcept nogil:
    with gil:
        d = <Dormitory>pool
        d.started.append(i)
        if (d.refuse >> i) & 1:
            return False
        d.sleepers[i].thread = THREAD_RUNS
        return True
