"""The seam for counters and trace events: what a worker has done.

Only what is rare beside its cost is counted: nothing at a fork that nobody steals.
While a *recording* runs each worker also notes what it does, and since when; when
none does, that is a load and a branch at places where a job was taken or a worker
was about to wait.

Each word has one writer at a time (the worker; `wakes`: the claimer of its wake), so
counting is a load and a store, both relaxed: readers want recent numbers, no order.
Times must add up, so a recording is a sequence lock: the worker never waits, and who
reads while it writes reads again.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from pyblitz.runtime.atomic cimport (
    atomic_i64, atomic_u32, atomic_u64, u32_load_relaxed, u64_load_relaxed, u64_store_relaxed,
    unlikely)

cdef enum Activity:
    ELSEWHERE       # a guest slot that is free
    BUSY
    SEARCHING
    SLEEPING
    WAITING         # for a stolen fork, or the tasks of a scope
    ACTIVITIES

# A worker did `what` between two times of now_ns.
cdef struct Span:
    int64_t begin       # by now_ns, as is the next
    int64_t end
    Activity what

cdef enum:
    MAX_SPANS = 65536   # of one worker in one recording; later ones are not kept

cdef struct WorkerTally:
    atomic_u64 jobs             # taken from a queue and run
    atomic_u64 steals           # jobs taken from other workers' deques
    atomic_u64 failed_steals    # tries at a deque that seemed to hold something, and gave nothing
    atomic_u64 promotions       # of lazy forks
    atomic_u64 sleeps           # how often it fell asleep for lack of work
    atomic_u64 wakes            # counted by whoever claimed the wake
    # The recording's number, or 0 if there is none.  An even number keeps spans, an odd one does not.
    # Written by the recorder, after `began`.
    atomic_u32 recording
    atomic_i64 began            # when the recording began
    atomic_u32 version          # odd while what follows is written
    atomic_u32 noted            # the recording that the rest is of
    atomic_i64 times[5]         # for each Activity, the ns of its spans that have ended
    atomic_i64 since            # now_ns << 3 | Activity: the span that goes on
    atomic_i64 n_spans          # that are kept
    Span* spans                 # NULL: no memory, or none was ever kept

# What the recorder reads: of one moment.
cdef struct Noted:
    uint32_t recording
    int64_t times[5]
    int64_t since
    Activity what
    int64_t n_spans

cdef void note_slowly(WorkerTally* s, Activity was, Activity will_be) noexcept nogil
cdef void stats_record(WorkerTally* s, uint32_t recording, int64_t now) noexcept nogil
cdef bint stats_read(WorkerTally* s, Noted* noted) noexcept nogil
cdef void stats_destroy(WorkerTally* s) noexcept nogil

cdef inline void add_one(atomic_u64* n) noexcept nogil:
    u64_store_relaxed(n, u64_load_relaxed(n) + 1)

cdef inline void note(WorkerTally* s, Activity was, Activity will_be) noexcept nogil:
    """The worker did one thing until now, and begins another."""
    if unlikely(u32_load_relaxed(&s.recording)):
        note_slowly(s, was, will_be)
