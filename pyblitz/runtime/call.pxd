"""Whether work is still wanted.

A *call* is what a caller asked for, and everything that it leads to, on whatever
worker; it can be told to stop.  A *part* is the item of a loop, or the scope, that
a worker is in the middle of: it is not wanted any more when the loop or scope has
failed before it.  Nobody is ever stopped from outside: work looks whether it is
wanted, between leaves and where a kernel polls.

A call may also have somebody who wants to know how far it is, its *progress*: the
items of its outermost loops, and how many of them are done.

A job carries its call from the worker that made it to the one that runs it.  All
accesses are relaxed: seeing a stop late costs time, never a result, for who stops
raises, and what was written before travels with the join.
"""
from libc.stdint cimport int64_t
from pyblitz.runtime.atomic cimport (
    atomic_i64, atomic_u32, i64_cas_relaxed, i64_fetch_add_relaxed, i64_load_relaxed, i64_store_relaxed,
    u32_cas_seq_cst, u32_exchange_acquire, u32_load_relaxed, u32_store_relaxed,
    u32_store_release)
from pyblitz.runtime.os cimport now_ns

cdef enum Stop:
    GO_ON = 0
    STOP_CANCELLED
    STOP_TIME_IS_UP
    STOP_INTERRUPTED    # a signal handler raised in the caller's thread
    # Never in a Call:
    STOP_NOT_WANTED     # a sibling failed
    STOP_FORKED         # this is a forked child, without the threads that it waits for

cdef struct Part:
    const atomic_i64* limit     # of its loop or scope: items from here on are not wanted
    int64_t at                  # its first item
    Part* outer                 # the part that this one's loop or scope runs in; NULL: none

cdef enum:
    TELL_NS = 50000000          # the listener is called at most once in this time

# -1: an exception is set.
ctypedef int (*tell_fn)(void* listener) noexcept nogil

cdef struct Progress:
    # done <= total: a loop adds its items before it begins, and they count when
    # their leaf has ended.
    atomic_i64 total            # items of the loops that have begun, or tasks that were spawned
    atomic_i64 done             # those of them that are done
    atomic_i64 told_at          # when the listener was last called, by now_ns
    atomic_u32 telling          # 1 while somebody calls the listener
    tell_fn tell
    void* listener
    # What the worker that began was in the middle of: only loops that are directly
    # in it count, not those that their leaves lead to.
    Part* part

cdef struct Call:
    atomic_u32 stop     # why to stop, a Stop; the first reason stays
    int64_t deadline    # by now_ns, no later than the outer call's; INT64_MAX: none
    Call* outer         # the call that this one is a part of, and stops with; NULL: none
    Progress* progress  # its own, or the nearest outer call's; NULL: nobody asked for it
    # How many scopes deep it is whose tasks are mail: see Group in pool.pxd.
    int level

cdef inline void call_init(Call* c, int64_t deadline, Call* outer) noexcept nogil:
    u32_store_relaxed(&c.stop, GO_ON)
    call_begin(c, deadline, outer)

cdef inline void call_begin(Call* c, int64_t deadline, Call* outer) noexcept nogil:
    """The same for one that may have been stopped already."""
    c.deadline = deadline
    c.outer = outer
    c.progress = outer.progress if outer != NULL else NULL
    c.level = outer.level if outer != NULL else 0
    if outer != NULL and outer.deadline < deadline:
        c.deadline = outer.deadline

cdef inline void call_stop(Call* c, Stop why) noexcept nogil:
    """Any thread, as long as the call lasts."""
    u32_cas_seq_cst(&c.stop, GO_ON, why)

cdef inline Stop call_stopped(const Call* c) noexcept nogil:
    """Why it is to stop, its time apart.  NULL is never stopped."""
    cdef Stop why = GO_ON
    while c != NULL and why == GO_ON:
        why = <Stop>u32_load_relaxed(&c.stop)
        c = c.outer
    return why

cdef inline bint part_wanted(const Part* p) noexcept nogil:
    while p != NULL:
        if p.at >= i64_load_relaxed(p.limit):
            return False
        p = p.outer
    return True

cdef inline void lower_limit(atomic_i64* limit, int64_t at) noexcept nogil:
    """Nothing at or past ``at`` is wanted any more."""
    # relaxed: a hint that saves work; results are read after the wait
    cdef int64_t seen = i64_load_relaxed(limit)
    while at < seen and not i64_cas_relaxed(limit, seen, at):
        seen = i64_load_relaxed(limit)

cdef inline void progress_init(Progress* p, tell_fn tell, void* listener,
                               Part* part) noexcept nogil:
    i64_store_relaxed(&p.total, 0)
    i64_store_relaxed(&p.done, 0)
    i64_store_relaxed(&p.told_at, now_ns())
    u32_store_relaxed(&p.telling, 0)
    p.tell = tell
    p.listener = listener
    p.part = part

cdef inline Progress* progress_of(const Call* c, const Part* part) noexcept nogil:
    """Who wants to know of a loop that this part of the call runs, or NULL."""
    if c == NULL or c.progress == NULL or c.progress.part != part:
        return NULL
    return c.progress

cdef inline bint progress_made(Progress* p, int64_t items) noexcept nogil:
    """So many more are done.  Whether it is time to tell: then the caller must, and
    call progress_told."""
    cdef int64_t now = now_ns()
    # relaxed: a number; it grows for whoever reads it twice
    i64_fetch_add_relaxed(&p.done, items)
    # relaxed: a hint; who tells next has seen what the last one wrote
    if now - i64_load_relaxed(&p.told_at) < TELL_NS or u32_load_relaxed(&p.telling):
        return False
    # acquire: partner is progress_told
    if u32_exchange_acquire(&p.telling, 1):
        return False
    if now - i64_load_relaxed(&p.told_at) >= TELL_NS:
        return True
    progress_told(p, False)
    return False

cdef inline void progress_told(Progress* p, bint told) noexcept nogil:
    if told:
        i64_store_relaxed(&p.told_at, now_ns())
    # release: partner is the exchange in progress_made
    u32_store_release(&p.telling, 0)
