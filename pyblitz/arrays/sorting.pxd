"""What sorts share: the order of fields or of a user's comparison, rows as kernels want them,
and the arguments that all of them have."""
from libc.stdint cimport int64_t, intptr_t, uint8_t
from numpy cimport ndarray
from pyblitz.kernels.argsort cimport Field
from pyblitz.kernels.merge cimport MergeSort
from pyblitz.kernels.numbers cimport KeyKind
from pyblitz.kernels.radix cimport SHARED_WORDS

# The KeyKind of each dtype.kind that kernels sort by keys.
cdef dict key_kinds

# ---- arguments

# Whether np.sort is stable with these arguments.
cdef bint wants_stable(object kind, object stable)
# Whether to sort from the greatest down; raises, if the kind that was given cannot do that.
cdef bint goes_down(object descending, object kind) except -1
# np.sort or np.argsort with `descending`, whatever the version of NumPy.
cdef object sort_by_numpy(object fn, object a, object axis, object kind, object order, object stable, bint descending)

# Raises, if out is neither None nor an array for what a has sorted (or, indices, the order of that).
cdef int check_sorted_out(object out, object a, object axis, bint indices) except -1
# What fn, np.sort or np.argsort, is to sort; None: nothing.  Raises what fn raises of its arguments.
cdef ndarray array_to_sort(object fn, object a, object axis, object kind, object order, object stable, object out)

# ---- rows

cdef enum:
    # So many rows are shared, each by one thread, whatever their length.
    MANY_ROWS = 16

cdef inline bint each_row_alone(int64_t rows, int64_t n) noexcept nogil:
    """Whether rows of n items are sorted by one thread each, or by all threads one after another."""
    return rows > 1 and (rows >= MANY_ROWS or n < SHARED_WORDS)

# Whether a is an array of half-precision numbers, of a class that computes as arrays do.
cdef bint are_halves(object a) except -1
# Whether kernels can read a as it lies.
cdef bint is_direct(ndarray a)

cdef class Rows:
    """An array as rows along an axis."""
    cdef ndarray array          # the array, flattened if the axis is None
    cdef ndarray rows           # a view of it with the axis last
    cdef ndarray out            # the `out` that was given, or None
    cdef bint flat              # whether it was flattened
    cdef int ndim, along        # the number of axes, and which of them
    # Rows for the result: `out` itself, if it can be written to as it lies and overlaps none
    # of `read`.
    cdef ndarray target(self, object dtype, list read)
    # What is to be sorted into the target: native and contiguous rows, which are the target itself or
    # do not overlap it.
    cdef ndarray source(self, ndarray target)
    # The result that has these rows: out, or an array in the memory order that NumPy's has.
    cdef object give(self, ndarray rows, bint indices)

cdef Rows rows_of(ndarray a, object axis, object out)

# ---- orders of fields

cdef class Fields:
    """What arrays of one shape are sorted by, the most significant first."""
    cdef Field* fields
    cdef int n
    cdef list arrays            # the arrays whose memory the fields are in
    cdef int put(self, ndarray a, KeyKind kind, intptr_t offset, int size, bint descending) except -1
    cdef bint add(self, ndarray a, bint descending) except -1
    cdef object order(self, int axis, ndarray out, ndarray begins)

# Whether NumPy's stable order of one key is there no later than ours.
cdef bint numpy_orders(ndarray x, bint down) noexcept
# The arrays of fields by which an array is sorted; None: NumPy alone knows its order.
cdef list sort_fields(ndarray a, object order)
# The permutation (int64) that stably sorts 1-D arrays of one length by keys[0], then by
# keys[1] ...; downs: of each, whether from the greatest down; None: none.  None: as above.
cdef ndarray sorting_order(list keys, list downs)
# The same, and whether a run of equal items begins at each place in it.
cdef tuple sorting_runs(list keys, list downs)
# An array that is greater where an item of a is last in both directions (NaN, NaT); None, if there
# are none.
cdef object missing_rank(ndarray a)

# ---- merges

# Sorts each of so many rows of s.n items by merge_sort.
cdef int merge_rows(MergeSort* s, int64_t rows) except -1
# np.sort(a, axis, kind='stable'), or with indices np.argsort, in the order of a compiled
# function `less`; checks all arguments.
cdef object sort_by(object given, object axis, object kind, object order, object stable, object descending,
                    object out, object less, bint indices)
