"""Whether work is still wanted.

A *call* is what a caller asked for, and everything that it leads to, on whatever
worker; it can be told to stop.  A *part* is the item of a loop, or the scope, that
a worker is in the middle of: it is not wanted any more when the loop or scope has
failed before it.  Nobody is ever stopped from outside: work looks whether it is
wanted, between leaves and where a kernel polls.

A job carries its call from the worker that made it to the one that runs it.  All
accesses are relaxed: seeing a stop late costs time, never a result, for who stops
raises, and what was written before travels with the join.
"""
from libc.stdint cimport int64_t
from pyblitz.runtime.atomic cimport (
    atomic_i64, atomic_u32, i64_load_relaxed, u32_cas_seq_cst, u32_load_relaxed,
    u32_store_relaxed)

cdef enum Stop:
    GO_ON = 0
    STOP_CANCELLED
    STOP_TIME_IS_UP
    STOP_INTERRUPTED    # a signal handler raised in the caller's thread
    # Never in a Call:
    STOP_NOT_WANTED     # a sibling failed
    STOP_FORKED         # this is a forked child, without the threads that it waits for

cdef struct Call:
    atomic_u32 stop     # Stop; the first one stays
    int64_t deadline    # of now_ns; INT64_MAX: none.  No later than outer's
    Call* outer         # which stops this one, too; NULL: none

cdef struct Part:
    const atomic_i64* limit     # of whatever at or past it is not wanted
    int64_t at
    Part* outer                 # that this one's loop or scope is in; NULL: none

cdef inline void call_init(Call* c, int64_t deadline, Call* outer) noexcept nogil:
    u32_store_relaxed(&c.stop, GO_ON)
    call_begin(c, deadline, outer)

cdef inline void call_begin(Call* c, int64_t deadline, Call* outer) noexcept nogil:
    """The same for one that may have been stopped already."""
    c.deadline = deadline
    c.outer = outer
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
