"""Each item a number of times."""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.runtime.pool cimport Worker

cdef struct Repeat:
    const char* src         # [outer][length] items
    char* dst               # [outer][total] items
    int64_t outer
    int64_t length
    int64_t total
    int64_t each            # how often every item is repeated, if ends is NULL
    const int64_t* ends     # [length]: where the repetitions of an item end
    intptr_t itemsize

# The sums of the counts up to and with each; all counts or-ed: whether one is negative
# or large enough for a sum to wrap; and whether another thread has changed the counts
# meanwhile: then the sums may fall.  0, ENOMEM, or -1.
cdef int ends_run(Worker* w, const int64_t* counts, int64_t n, int64_t* ends,
                  int64_t* bits, bint* changed) noexcept nogil
cdef int repeat_run(Worker* w, Repeat* r) noexcept nogil
