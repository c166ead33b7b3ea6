"""Others' inner loops, shared: functions that take the place of a loop in a table which its
library reads at each call, and run the loop underneath on ranges of the call's items.

What a loop gets says nothing of the arrays behind it, so a call is shared only when what it
writes cannot be what another range reads or writes; else the loop gets it whole.
No Python, no NumPy.
"""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.kernels.map cimport loop_fn
from pyblitz.runtime.atomic cimport atomic_i64
from pyblitz.runtime.pool cimport Worker

cdef enum:
    LOOP_ARGS = 64          # as many as NumPy allows

cdef enum Reduces:
    REDUCES_NOT             # not shared: the order of its items shows, or it is no reduction
    REDUCES                 # any order gives the same bits
    REDUCES_EXTREME         # so does this, but for zeros of both signs and for NaNs
    REDUCES_ROUNDING        # in blocks, with other last bits

# Before the library can call it; not changed afterwards, but for `reduces`.
cdef struct LoopKind "pb_loop_kind":
    int inputs
    int args
    int core_dims           # of a generalised ufunc: dims 1 .. core_dims are each item's own
    const int* core_counts  # of each operand, and which of them, one operand after the other
    const int* core_which
    intptr_t sizes[LOOP_ARGS]   # bytes of an element
    bint raises             # may set an exception, with the GIL
    Reduces reduces
    int absorbing           # of a reduction of bools: what nothing changes any more; -1: none

cdef extern from "pyblitz/kernels/loops.h" nogil:
    int LOOPS "PB_LOOPS"
    ctypedef struct SharedLoop "pb_loop":
        loop_fn fn
        atomic_i64 share_from
        LoopKind* kind
        atomic_i64 calls
        atomic_i64 shared
        atomic_i64 learnt

# How a thread becomes a worker for something that nothing may stop: runs fn(w, ctx), and
# returns what that returns.  False in `ran`: there was no memory for it.
ctypedef int (*loop_job_fn)(Worker* w, void* ctx) noexcept nogil
ctypedef int (*loop_enter_fn)(loop_job_fn fn, void* ctx, bint* ran) noexcept nogil

cdef void loops_init(loop_enter_fn enter) noexcept nogil
# Number k, and the function that stands for it.
cdef SharedLoop* loop_at(int k) noexcept nogil
cdef loop_fn loop_stand_in(int k) noexcept nogil
# A new one, which shares nothing yet.
cdef void loop_init(SharedLoop* l, loop_fn fn, LoopKind* kind) noexcept nogil
# From so many items on, always and in four parts at least; 0: from when it pays.
cdef void loop_share(SharedLoop* l, int64_t always_from) noexcept nogil
# Every call is the loop's own again.
cdef void loop_pass(SharedLoop* l) noexcept nogil
