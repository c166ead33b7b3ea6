"""The permutation that stably sorts by one or more fields, on all cores.

Each field of an item is a number of up to 64 bits whose unsigned order is that of the
field.  What varies in the first fields (their range, or the bits in which the items
differ at all) is packed into one word, above the index of the item: sorting such words
(radix.pxd) sorts the indices, stably, and nothing of the items is moved or fetched at
random.  Where more varies than fits into a word, items that tie in it are sorted in
the same way by what follows; of random keys there are hardly any.  Where few bits vary, or a
number has few values (distinct.pxd), there is nothing to sort: the items of each key are counted,
and go behind those of lesser ones.

The packing follows the way that databases normalise keys (Graefe, "Implementing sorting
in database systems", 2006).
"""
from libc.stdint cimport int64_t, intptr_t, uint8_t
from pyblitz.kernels.numbers cimport KeyKind
from pyblitz.runtime.pool cimport Worker

cdef struct Field:
    const char* base    # the field of the first item
    intptr_t step       # how many bytes lie between the fields of two items
    intptr_t pitch      # how many bytes lie between two rows
    KeyKind kind
    int size            # in bytes
    bint descending     # NaN and NaT are last all the same

# Writes to out the positions of the n items in sorted order and, if begins is not NULL, whether each
# of them begins a run of equal items.  Without a worker, this thread does it alone.  Returns 0,
# ENOMEM, or -1.
cdef int sort_order(Worker* w, const Field* fields, int n_fields, int64_t n,
                    int64_t* out, uint8_t* begins) noexcept nogil
# The same for each of so many rows of n items.
cdef int sort_order_of_rows(Worker* w, const Field* fields, int n_fields, int64_t n,
                            int64_t rows, int64_t* out) noexcept nogil
