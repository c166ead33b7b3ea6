"""Lanes: jobs that carry a key run one at a time, in the order in which they came,
on one worker; state that belongs to a key needs no lock.

A key's hash picks a lane.  A lane is a queue that any thread adds to, and at most
one worker takes from: whoever adds to an idle lane *schedules* it, as one job, in
the box of the worker that the lane belongs to; that worker runs a few of its jobs
at each turn and puts it back behind its other lanes and shared work, until the
lane is empty.  Nothing else ever runs a lane's jobs, so nothing orders them but
the lane itself: when a pool is replaced, a lane that is busy stays where it is
until it is empty, and is scheduled on the new pool after that.

After the affinity pool in the F# seed, whose queues belong to threads; here they
belong to keys, so that they outlive a pool.
"""
from libc.stdint cimport uint64_t
from pyblitz.runtime.atomic cimport atomic_ptr
from pyblitz.runtime.job cimport Job
from pyblitz.runtime.pool cimport Pool

cdef enum:
    LANES = 4096        # a power of two; untouched ones cost address space only
    LANE_TURN = 32      # jobs of one lane between two looks at other work

cdef struct Lane:
    Job job             # first: as this job the lane is scheduled
    # NULL: idle.  LANE_BUSY: scheduled, nothing new.  Else scheduled, and the
    # newest job, linked to older ones, the oldest to NULL.
    atomic_ptr head
    # -- whoever scheduled the lane or runs it
    Job* rest           # taken from head, oldest first
    Pool* pool          # where it is scheduled; the lane holds a share of its users
    char _pad[64 - 40]  # keeps what others write off these cache lines

cdef Lane* lanes_new() noexcept nogil
cdef void lanes_free(Lane* lanes) noexcept nogil
cdef void lane_submit(Pool* p, uint64_t hash, Job* job) noexcept nogil
