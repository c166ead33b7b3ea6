"""Latches and the counters of the sleep protocol, step by step and in races."""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from pyblitz.runtime.atomic cimport (
    atomic_i64, i64_fetch_add_relaxed, i64_load_acquire,
    i64_store_relaxed, u32_load_relaxed, u32_store_relaxed,
    u64_store_relaxed)
from pyblitz.runtime.counters cimport (
    Counters, add_inactive, add_sleeping, announce_sleepy, count_inactive,
    count_jec, count_sleeping, counters_init, counters_load, post_event,
    sub_inactive, sub_sleeping)
from pyblitz.runtime.latch cimport (
    LATCH_SET, LATCH_SLEEPING, LATCH_SLEEPY, LATCH_UNSET, CoreLatch,
    CountLatch, count_down, count_latch_init, count_up, latch_fall_asleep,
    latch_get_sleepy, latch_init, latch_is_set, latch_set, latch_wake_up)
from pyblitz.runtime.os cimport yield_thread

UNSET, SLEEPY, SLEEPING, SET = LATCH_UNSET, LATCH_SLEEPY, LATCH_SLEEPING, LATCH_SET


cdef class Latch:
    cdef CoreLatch latch
    cdef atomic_i64 round_
    cdef atomic_i64 ready
    cdef readonly int64_t asleep, duties

    def __cinit__(self, uint32_t state=LATCH_UNSET):
        latch_init(&self.latch)
        u32_store_relaxed(&self.latch.state, state)
        i64_store_relaxed(&self.round_, 0)
        i64_store_relaxed(&self.ready, 0)

    @property
    def state(self):
        return u32_load_relaxed(&self.latch.state)

    def is_set(self):
        return latch_is_set(&self.latch)

    def get_sleepy(self):
        return latch_get_sleepy(&self.latch)

    def fall_asleep(self):
        return latch_fall_asleep(&self.latch)

    def wake_up(self):
        latch_wake_up(&self.latch)

    def set(self):
        return latch_set(&self.latch)

    cdef void meet(self, int64_t turn) noexcept nogil:
        """Both threads of a race leave this at about the same time."""
        i64_fetch_add_relaxed(&self.round_, 1)
        while i64_load_acquire(&self.round_) < 2 * turn:
            yield_thread()

    def own(self, int64_t rounds):
        """Falls asleep, or finds the latch set: how often which."""
        cdef int64_t turn, awake = 0
        with nogil:
            for turn in range(1, rounds + 1):
                latch_init(&self.latch)
                self.meet(2 * turn - 1)
                if latch_get_sleepy(&self.latch) and latch_fall_asleep(&self.latch):
                    self.asleep += 1
                else:
                    awake += latch_is_set(&self.latch)
                self.meet(2 * turn)
        return self.asleep, awake

    def strike(self, int64_t rounds):
        """Sets it meanwhile: how often that gave the duty to wake."""
        cdef int64_t turn, k
        with nogil:
            for turn in range(1, rounds + 1):
                self.meet(2 * turn - 1)
                for k in range(turn & 63):     # now sooner, now later
                    latch_is_set(&self.latch)
                self.duties += latch_set(&self.latch)
                self.meet(2 * turn)
        return self.duties


cdef class Count:
    """A count latch whose owner is this object, to be woken by whoever is last."""
    cdef CountLatch latch
    cdef atomic_i64 up

    def __cinit__(self):
        count_latch_init(&self.latch, <void*>self)
        i64_store_relaxed(&self.up, 0)

    def sleep(self):
        return latch_get_sleepy(&self.latch.latch.core) and latch_fall_asleep(
            &self.latch.latch.core)

    def is_set(self):
        return latch_is_set(&self.latch.latch.core)

    def count_up(self):
        count_up(&self.latch, 1)

    def count_down(self):
        """None, or whether the owner that is to be woken is this."""
        cdef void* owner = count_down(&self.latch, 1)
        return None if owner == NULL else owner == <void*>self

    def churn(self, int64_t n):
        """Counts up n times, and down as often: how often it was the last."""
        cdef int64_t i, last = 0
        with nogil:
            for i in range(n):
                count_up(&self.latch, 1)
            for i in range(n):
                last += count_down(&self.latch, 1) != NULL
        return last


cdef class Count64:
    """The packed word."""
    cdef Counters k

    def __cinit__(self, uint32_t asleep=0):
        counters_init(&self.k, asleep)

    def store(self, uint64_t sleeping, uint64_t inactive, uint64_t jec):
        u64_store_relaxed(&self.k.word, sleeping | inactive << 16 | jec << 32)

    @property
    def fields(self):
        cdef uint64_t c = counters_load(&self.k)
        return count_sleeping(c), count_inactive(c), count_jec(c)

    def announce_sleepy(self):
        return announce_sleepy(&self.k)

    def post_event(self):
        return count_jec(post_event(&self.k))

    def add_sleeping(self, uint32_t jec):
        return add_sleeping(&self.k, jec)

    def sub_sleeping(self):
        sub_sleeping(&self.k)

    def add_inactive(self):
        add_inactive(&self.k)

    def sub_inactive(self):
        sub_inactive(&self.k)

    def churn(self, int64_t rounds):
        """A sleeper's life, over and over: how often it fell asleep."""
        cdef int64_t i, slept = 0
        cdef uint32_t jec
        with nogil:
            for i in range(rounds):
                add_inactive(&self.k)
                jec = announce_sleepy(&self.k)
                if add_sleeping(&self.k, jec):
                    slept += 1
                    sub_sleeping(&self.k)
                sub_inactive(&self.k)
        return slept

    def post(self, int64_t rounds):
        cdef int64_t i, even = 0
        with nogil:
            for i in range(rounds):
                even += count_jec(post_event(&self.k)) & 1 == 0
        return even
