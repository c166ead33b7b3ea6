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

# What a loop is.  It is filled before the library can call the loop; later only `reduces` changes.
cdef struct LoopKind "pb_loop_kind":
    int inputs
    int args
    int core_dims           # of a generalised ufunc: how many dims, from dims[1] on, an item has
    const int* core_counts  # of a generalised ufunc: how many of these each operand has
    const int* core_which   # which those are, one operand behind the other
    intptr_t sizes[LOOP_ARGS]   # how many bytes an element of each operand has
    bint raises             # whether it may take the GIL and set an exception
    Reduces reduces
    int absorbing           # of reductions of bools: the result that no item changes; -1: none

cdef extern from "pyblitz/kernels/loops.h" nogil:
    int LOOPS "PB_LOOPS"
    ctypedef struct SharedLoop "pb_loop":
        loop_fn fn              # the loop underneath
        atomic_i64 share_from   # calls of fewer items go to it at once
        LoopKind* kind
        atomic_i64 calls        # how many calls were large enough to be looked at
        atomic_i64 shared       # how many of these another thread had a part in
        atomic_i64 learnt       # see loops.h

# How a thread becomes a worker for something that nothing may stop: runs fn(w, ctx), and
# returns what that returns.  False in `ran`: there was no memory for it.
ctypedef int (*loop_job_fn)(Worker* w, void* ctx) noexcept nogil
ctypedef int (*loop_enter_fn)(loop_job_fn fn, void* ctx, bint* ran) noexcept nogil

cdef void loops_init(loop_enter_fn enter) noexcept nogil
# What loops_init was given.
cdef loop_enter_fn enter_to_end
# Shared loop k, and the function that takes the place of the loop underneath.
cdef SharedLoop* loop_at(int k) noexcept nogil
cdef loop_fn loop_stand_in(int k) noexcept nogil
# Makes l a shared loop over fn, which shares no call yet.
cdef void loop_init(SharedLoop* l, loop_fn fn, LoopKind* kind) noexcept nogil
# From here on, calls of so many items are always shared, in four parts at least; with 0, calls are
# shared where it pays.
cdef void loop_share(SharedLoop* l, int64_t always_from) noexcept nogil
# From here on, no call is shared.
cdef void loop_pass(SharedLoop* l) noexcept nogil
