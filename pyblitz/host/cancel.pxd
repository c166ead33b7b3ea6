"""How far an operation is, for those that count it themselves."""
from libc.stdint cimport int64_t
from pyblitz.runtime.call cimport Progress


cdef class Listener:
    cdef Progress progress  # what is counted; `total` grows before what it counts begins
    cdef object callback    # what is called with the two numbers
    cdef object context     # the context in which it is called
    cdef int64_t done       # the numbers that it was told last: they never sink, whatever is read
    cdef int64_t total
    cpdef int tell(self, bint finished) except -1
    # So many more items are done.  Raises what the callback raises.
    cdef int count(self, int64_t items) except -1
