"""``with`` blocks that belong to a thread, and what becomes of those that nobody leaves.

A function may enter a `scope`, a `CancelScope` or a block of `threads` in a generator that hangs
when the function returns.  Such a block refers to what lies on the stack of whoever called the
function.  So that one ends the block: `end_left_open`.
"""
from libc.stdint cimport int64_t
from pyblitz.runtime.call cimport Part
from pyblitz.runtime.pool cimport Worker

cdef class Block:
    cdef Block _outside     # that this thread entered last before, and has not left
    cdef int64_t _number    # the how manieth it was that this thread entered
    cdef bint _ended        # by `end_left_open`; whoever entered it will come too late
    # Ends it, and raises what the end of its `with` would.
    cdef int _end_left_open(self) except -1
    # Before it is entered once more: its end by whoever entered it last may be yet to come.
    cdef int _check_left(self) except -1
    # To whoever comes too late.
    cdef int _too_late(self, object exc) except -1

# The thread refers to it from one to the other.
cdef void block_begins(Block b) noexcept
cdef void block_ends(Block b) noexcept
# After a function of Python's, see has_left_open: the gravest failure of the blocks that it has left
# open, or None.
cdef object end_left_open(Worker* w, Part* part, void* mark)
# The number of the block that this thread has entered last.
cdef int64_t last_entered() noexcept
# The same of those that this thread has entered after the block of that number.
cdef object end_later(int64_t number)
# What the function gives that an operation calls, also before it begins or when it has ended, to see
# what it is; the same for the blocks that it leaves open.
cdef object called_alone(object fn, tuple args)

# Of two failures of functions that are called side by side (`join`, tasks), and of a function and the
# blocks that it leaves open, the one of the lower rank is raised, before the index counts.  That
# something was cancelled follows from another failure, when there is one.  In a loop the index alone
# counts: there a block after the first that failed may never run.
cdef int rank_of_error(object error) noexcept
# The one that is raised of two, or of one and None; of equals the first.
cdef object graver(object error, object other)
