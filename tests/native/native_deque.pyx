"""Deques of 4 cells and items that count how often each was taken."""
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free
from pyblitz.runtime.atomic cimport (
    DEQUE_CAPACITY, atomic_i64, i64_fetch_add_relaxed, i64_load_acquire,
    i64_load_relaxed, i64_store_relaxed, i64_store_release, ptr_load_relaxed,
    u32_load_relaxed, u32_store_relaxed)
from pyblitz.runtime.deque cimport (
    BIAS_FENCED, BIAS_OWNER, BIAS_REFUSED,
    STEAL_EMPTY, STEAL_RETRY, STEAL_TAKEN, Deque, Ring, StealResult,
    deque_bottom, deque_bottom_tag, deque_destroy, deque_init, deque_looks, deque_offers,
    deque_pop, deque_push, deque_steal)
from pyblitz.runtime.job cimport Job
from pyblitz.runtime.os cimport alloc_aligned, membarrier_register, yield_thread

CAPACITY = DEQUE_CAPACITY
EMPTY, TAKEN, RETRY = STEAL_EMPTY, STEAL_TAKEN, STEAL_RETRY
FENCED, OWNER = BIAS_FENCED, BIAS_OWNER
HAS_MEMBARRIER = membarrier_register()


cdef class Arena:
    """Deques in a row, each for its share of the items 0 .. n, pushed in order."""
    cdef Deque* deques
    cdef Job* jobs
    cdef atomic_i64* taken
    cdef readonly int64_t n
    cdef readonly bint biased    # whether thieves may have to pay for fences
    cdef int64_t n_deques
    cdef atomic_i64 current     # the deque that the owner works on
    cdef atomic_i64 finished
    cdef atomic_i64 present     # thieves that have come

    def __cinit__(self, int64_t n, int64_t n_deques=1, bint biased=True):
        self.n = n
        self.biased = biased and HAS_MEMBARRIER
        self.n_deques = n_deques
        self.deques = <Deque*>alloc_aligned(n_deques * sizeof(Deque))
        self.jobs = <Job*>calloc(n, sizeof(Job))
        self.taken = <atomic_i64*>calloc(n, sizeof(atomic_i64))
        i64_store_relaxed(&self.current, 0)
        i64_store_relaxed(&self.finished, 0)
        i64_store_relaxed(&self.present, 0)
        for i in range(n_deques):
            if not deque_init(&self.deques[i], self.biased):
                raise MemoryError

    def __dealloc__(self):
        for i in range(self.n_deques):
            deque_destroy(&self.deques[i])
        free(self.deques)
        free(self.jobs)
        free(self.taken)

    cdef void* tag_of(self, int64_t item) noexcept nogil:
        return <void*><size_t>(item + 1)

    cdef void take(self, Job* job) noexcept nogil:
        i64_fetch_add_relaxed(&self.taken[job - self.jobs], 1)

    # -- one step at a time, on the first deque

    def push(self, int64_t item, size_t tag=0):
        return deque_push(self.deques, deque_bottom(self.deques), &self.jobs[item], <void*>tag)

    def pop(self):
        cdef Job* job = deque_pop(self.deques)
        return None if job == NULL else job - self.jobs

    def steal(self, size_t tag=0):
        cdef Job* job = NULL
        cdef void* found = NULL
        cdef StealResult r = STEAL_RETRY
        while r == STEAL_RETRY:     # first it revokes a bias
            r = deque_steal(self.deques, <void*>tag, &job, &found)
        if r != STEAL_TAKEN:
            return r
        return job - self.jobs, <size_t>found

    def offers(self, size_t tag):
        return deque_offers(self.deques, <void*>tag)

    def refuse(self):
        """As a thief leaves it that was refused a membarrier."""
        u32_store_relaxed(&self.deques.bias, BIAS_REFUSED)

    def bottom_tag(self):
        return <size_t>deque_bottom_tag(self.deques)

    def __len__(self):
        return deque_looks(self.deques)

    @property
    def bias(self):
        return u32_load_relaxed(&self.deques.bias)

    @property
    def capacity(self):
        return (<Ring*>ptr_load_relaxed(&self.deques.ring)).mask + 1

    @property
    def counts(self):
        return [i64_load_relaxed(&self.taken[i]) for i in range(self.n)]

    def taken_once(self):
        """How many items were."""
        cdef int64_t i, once = 0
        for i in range(self.n):
            once += i64_load_relaxed(&self.taken[i]) == 1
        return once

    # -- loops without the GIL

    def own(self, int pops, bint drain=True, int thieves=0):
        """When the thieves are here, pushes each deque's share, popping after `pops` of 8
        pushes; at the end takes what is left.  How many were popped."""
        cdef int64_t item = 0, popped = 0, d, k
        cdef uint64_t random = 88172645463325252u
        cdef Job* job
        with nogil:
            while i64_load_acquire(&self.present) < thieves:
                yield_thread()
            for d in range(self.n_deques):
                i64_store_release(&self.current, d)
                for k in range(self.n / self.n_deques):
                    deque_push(&self.deques[d], deque_bottom(&self.deques[d]),
                               &self.jobs[item], self.tag_of(item))
                    item += 1
                    random ^= random << 13
                    random ^= random >> 7
                    random ^= random << 17
                    if <int>(random & 7) < pops:
                        job = deque_pop(&self.deques[d])
                        if job != NULL:
                            self.take(job)
                            popped += 1
            if drain:
                for d in range(self.n_deques):
                    while True:
                        job = deque_pop(&self.deques[d])
                        if job == NULL:
                            break
                        self.take(job)
                        popped += 1
            i64_store_release(&self.finished, 1)
        return popped

    def thieve(self, size_t want=0):
        """Steals until the owner is done: (how many, how many out of order, how many with
        another item's tag)."""
        cdef int64_t stolen = 0, disorder = 0, torn = 0, last = -1, item
        cdef int64_t finished, d
        cdef Job* job = NULL
        cdef void* tag = NULL
        cdef StealResult r
        i64_fetch_add_relaxed(&self.present, 1)
        with nogil:
            while True:
                finished = i64_load_acquire(&self.finished)
                d = i64_load_acquire(&self.current)
                r = deque_steal(&self.deques[d], <void*>want, &job, &tag)
                if r == STEAL_TAKEN:
                    item = job - self.jobs
                    self.take(job)
                    stolen += 1
                    disorder += item <= last
                    torn += tag != self.tag_of(item)
                    last = item
                elif r == STEAL_EMPTY:
                    if finished:
                        break
                    yield_thread()
        return stolen, disorder, torn

    # -- the same item over and over; `taken` counts for each thief

    def feed(self, int64_t thieves):
        """Pushes and pops until every thief has taken something.  Pushes less pops."""
        cdef int64_t out = 0, fed = 0, i
        with nogil:
            while fed < thieves:
                for i in range(16):
                    out += deque_push(self.deques, deque_bottom(self.deques), self.jobs, NULL)
                for i in range(16):
                    out -= deque_pop(self.deques) != NULL
                fed = 0
                for i in range(thieves):
                    fed += i64_load_relaxed(&self.taken[i]) != 0
            while deque_pop(self.deques) != NULL:
                out -= 1
            i64_store_release(&self.finished, 1)
        return out

    def eat(self, int64_t me):
        cdef Job* job = NULL
        cdef void* tag = NULL
        with nogil:
            while not i64_load_acquire(&self.finished):
                if deque_steal(self.deques, NULL, &job, &tag) == STEAL_TAKEN:
                    i64_fetch_add_relaxed(&self.taken[me], 1)
