"""Merging, and what is sorted by it.  No Python, no NumPy.

merge_sort   one contiguous row, stable if the leaf is, with n extra items
sort_rows    many rows, each by itself
merge_two    two sorted rows into one
is_sorted    whether each item of a row goes with the one before it

What each gives depends on the data alone, never on the number of threads.

A comparison may be a user's, and answer whatever it likes: at random, "yes" to
everything, by raising.  Indices never come from its answers alone: those of a
merge are clamped between what their neighbours have, and no loop ends by an
answer only.  So nothing is read or written out of bounds, every function ends,
and what comes out is a permutation of what went in, in some order.
"""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.kernels.blocks cimport sort_fn
from pyblitz.runtime.pool cimport Worker

# Negative when a goes before b, 0 when they are equal.  It cannot fail.
ctypedef int (*compare_fn)(const void* a, const void* b, void* arg) noexcept nogil

cdef enum OrderForm:
    ORDER_COMPARE       # fn is a compare_fn
    # fn is a user's, true when a goes before b.  -1 with an exception set: it failed.
    ORDER_LESS          # int (const void* a, const void* b, void* arg)
    ORDER_LESS_ALONE    # int (const void* a, const void* b)
    ORDER_TRUTH         # of one byte, a bool or char
    ORDER_TRUTH_ALONE

cdef struct Order:
    OrderForm form
    bint descending     # a goes before b when fn says that b goes before a
    void* fn
    void* arg
    intptr_t itemsize   # bytes
    # Merges two sorted runs into one; equal items keep their order.  The merge of a type that is
    # known here reads neither fn nor descending.
    int (*merge)(Worker* w, const Order* o, const char* a, const char* a_end,
                 const char* b, const char* b_end, char* out) noexcept nogil

# The order of numbers or times, with NaN and NaT last; kind is NumPy's letter (b, i, u, f, m or M).
# False, if there are no such numbers here.
cdef bint order_numbers(Order* o, char kind, intptr_t itemsize) noexcept nogil
cdef void order_by(Order* o, OrderForm form, void* fn, void* arg, intptr_t itemsize) noexcept nogil

# NumPy's order of strings, for which it has no function; `arg` is the itemsize.
cdef int compare_bytes(const void* a, const void* b, void* arg) noexcept nogil
cdef int compare_ucs4(const void* a, const void* b, void* arg) noexcept nogil

cdef struct MergeSort:
    const char* src     # what to sort; may be dst, else must not overlap it
    char* dst           # where the result goes
    int64_t n           # items
    Order order
    sort_fn leaf        # sorts a chunk or a row; NULL: it is sorted by `order`, and is stable
    void* arr           # the leaf's last argument

cdef enum:
    MERGE_PIECES = 256

cdef struct MergeTwo:
    const Order* order
    const char* a
    int64_t na
    const char* b
    int64_t nb
    char* out           # na + nb items, apart from a and b
    # -- the rest is merge_two's own
    int64_t piece                       # items of the result in one leaf
    int64_t ranks[MERGE_PIECES + 1]     # items of a before each piece

cdef struct IsSorted:
    const Order* order
    const char* row
    # Each of the rows is n * stride items; of its first (n - 1) * stride, each is compared with the
    # one that is stride further.
    int64_t n
    int64_t stride
    int64_t rows
    bint descending     # NaN and NaT are last all the same
    bint strict         # whether equal neighbours are out of order, too
    bint found          # result: whether some pair is out of order
    # -- the rest is is_sorted's own
    int (*look)(const IsSorted* s, const char* x, const char* y, int64_t n) noexcept nogil

# 0, ENOMEM, or -1 with an exception set: a signal, or one of the comparison.  After a
# failure dst, if it is src, holds its items in some order.
cdef int merge_sort(Worker* w, MergeSort* s) noexcept nogil
# The rows may be the same memory, too.
cdef int sort_rows(Worker* w, MergeSort* s, int64_t rows) noexcept nogil
cdef int merge_two(Worker* w, MergeTwo* t) noexcept nogil
cdef int is_sorted(Worker* w, IsSorted* s) noexcept nogil
