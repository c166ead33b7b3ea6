"""Repetition: each item of a row is written a number of times."""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.runtime.pool cimport Worker

cdef struct Repeat:
    const char* src         # [outer][length] items
    char* dst               # [outer][total] items
    int64_t outer
    int64_t length
    int64_t total           # the number of items in a row of the result
    int64_t each            # how often each item is written, if ends is NULL
    const int64_t* ends     # [length]: where the repetitions of an item end
    intptr_t itemsize

# Writes to ends[i] the sum of counts[0 .. i], which is included; and to bits all counts, or-ed, from
# which the caller sees whether one is negative, or so large that a sum may wrap.  changed: whether
# another thread has written counts meanwhile; then the sums may fall.  Returns 0, ENOMEM, or -1.
cdef int ends_run(Worker* w, const int64_t* counts, int64_t n, int64_t* ends,
                  int64_t* bits, bint* changed) noexcept nogil
cdef int repeat_run(Worker* w, Repeat* r) noexcept nogil
