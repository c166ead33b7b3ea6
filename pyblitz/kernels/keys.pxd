"""Sorts of numbers.  Those of 4 and 8 bytes become words, which radix sorts; those of 1 and 2 bytes
are counted.
"""
from libc.stdint cimport int64_t
from pyblitz.kernels.numbers cimport KEY_FLOAT, KeyKind, Raw, Word, infinity, last_key
from pyblitz.runtime.pool cimport Worker

cdef struct NumberSort:
    const char* src     # the n numbers; it is dst, or does not overlap it
    char* dst           # where the sorted numbers go
    int64_t n
    int itemsize        # 1, 2, 4 or 8
    KeyKind kind
    bint descending     # NaN and NaT are last all the same
    # Whether zeros of both signs, and NaNs of several bits, keep their order.  Not for 2 bytes.
    bint stable

# Returns 0, ENOMEM, or -1 with an exception set.
cdef int sort_keys(Worker* w, NumberSort* k) noexcept nogil
# The same for each of so many rows of n numbers, one behind the other.
cdef int sort_rows_of_keys(Worker* w, NumberSort* k, int64_t rows) noexcept nogil
# For authors of kernels: as sort_keys, in place.
cdef int sort_in_place(Worker* w, KeyKind kind, int itemsize, void* a, int64_t n) noexcept nogil

# Numbers as words whose unsigned order is theirs, and back; no two numbers share one.  out may be x.
cdef void encode(KeyKind kind, bint descending, const Word* x, int64_t n, Word* out) noexcept nogil
cdef void decode(KeyKind kind, bint descending, const Word* x, int64_t n, Word* out) noexcept nogil

cdef inline Raw last_word(KeyKind kind, Raw like) noexcept nogil:
    """The greatest word of a number; those beyond are of NaN and NaT."""
    # Of floats there are as many as infinity's bits say, twice, and two zeros.
    return 2 * infinity(like) + 1 if kind == KEY_FLOAT else last_key(kind, like)
