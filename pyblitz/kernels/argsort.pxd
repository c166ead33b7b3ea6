"""The permutation that stably sorts by one or more fields, on all cores.

Each field of an item is a number of up to 64 bits whose unsigned order is that of the
field.  What varies in the first fields (their range, or the bits in which the items
differ at all) is packed into one word, above the index of the item: sorting such words
(radix.pxd) sorts the indices, stably, and nothing of the items is moved or fetched at
random.  Where more varies than fits into a word, items that tie in it are sorted in
the same way by what follows; of random keys there are hardly any.

The packing follows the way that databases normalise keys (Graefe, "Implementing sorting
in database systems", 2006).
"""
from libc.stdint cimport int64_t, intptr_t, uint8_t
from pyblitz.runtime.pool cimport Worker

cdef enum FieldKind:
    FIELD_UNSIGNED  # of 1, 2, 4 or 8 bytes, as the next three (floats: 2, 4, 8)
    FIELD_SIGNED
    FIELD_FLOAT     # zeros are equal, NaNs too, and last
    FIELD_TIME      # the least value (NaT) last
    FIELD_BYTES     # up to 8 bytes, compared as such
    FIELD_CHARS     # one or two characters of 4 bytes

cdef struct Field:
    const char* base
    intptr_t step       # bytes from an item to the next
    intptr_t pitch      # from a row to the next
    FieldKind kind
    int size            # bytes
    bint descending     # what is last stays last

# Positions of the n items in sorted order, and, unless it is NULL, whether each begins a run
# of equal ones.  Without a worker: alone.  0, ENOMEM, or -1.
cdef int sort_order(Worker* w, const Field* fields, int n_fields, int64_t n,
                    int64_t* out, uint8_t* begins) noexcept nogil
# Of rows of n items each, one after another.
cdef int sort_order_of_rows(Worker* w, const Field* fields, int n_fields, int64_t n,
                            int64_t rows, int64_t* out) noexcept nogil
