"""Sorts of numbers: through the words of radix.pxd, of 1 or 2 bytes by counting."""
from libc.stdint cimport int64_t
from pyblitz.runtime.pool cimport Worker

cdef enum KeyKind:
    KEY_UNSIGNED
    KEY_SIGNED
    KEY_FLOAT       # IEEE 754; NaNs last
    KEY_TIME        # signed, with the least value (NaT) last

cdef struct Keys:
    const char* src
    char* dst
    int64_t n
    int itemsize
    KeyKind kind
    bint descending     # what is last stays last
    # Zeros of both signs and NaNs keep their order; not of 2 bytes.
    bint stable

# 1, 2, 4 or 8 bytes.  src is dst, or they do not overlap.
cdef int sort_keys(Worker* w, Keys* k) noexcept nogil
# Of n items each, in one array after another.
cdef int sort_rows_of_keys(Worker* w, Keys* k, int64_t rows) noexcept nogil
# For authors of kernels: as sort_keys, in place.
cdef int sort_in_place(Worker* w, KeyKind kind, int itemsize, void* a, int64_t n) noexcept nogil
