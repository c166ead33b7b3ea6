"""What sorts share: the order of fields or of a user's comparison, rows as kernels want them,
and the arguments that all of them have."""
from libc.stdint cimport int64_t, intptr_t, uint8_t
from numpy cimport ndarray
from pyblitz.kernels.argsort cimport Field, FieldKind
from pyblitz.kernels.merge cimport MergeSort

# ---- arguments

# Whether a kind is stable, as np.sort understands it.
cdef bint wants_stable(object kind, object stable)
# Of the parameter and a kind that was given.
cdef bint goes_down(object descending, object kind) except -1
# np.sort or np.argsort with `descending`, whatever the version of NumPy.
cdef object by_numpy(object fn, object a, object axis, object kind, object order, object stable, bint descending)
# An `out` for a result of this shape and dtype; swapped: in either byte order.
cdef int check_out(object out, tuple shape, object dtype, bint swapped=*) except -1

# ---- rows

cdef bint is_direct(ndarray a)      # kernels can read it as it lies

cdef class Rows:
    """An array as rows along an axis."""
    cdef ndarray array          # None's is flattened
    cdef ndarray rows           # the same, with the axis last
    cdef ndarray out            # that was given, or None
    cdef bint flat
    cdef int ndim, along
    # Rows for the result: `out` itself, if it can be written to as it lies and overlaps none
    # of `read`.
    cdef ndarray target(self, object dtype, list read)
    # What is to be sorted into the target: native and contiguous, the target itself or apart.
    cdef ndarray source(self, ndarray target)
    # The result, of which these are the rows: out, or as NumPy's own copy would lie.
    cdef object give(self, ndarray rows, bint indices)

cdef Rows rows_of(ndarray a, object axis, object out)

# ---- orders of fields

cdef class Fields:
    """What arrays of one shape are sorted by, the most significant first."""
    cdef Field* fields
    cdef int n
    cdef list arrays            # that they are in
    cdef int put(self, ndarray a, FieldKind kind, intptr_t offset, int size, bint descending) except -1
    cdef bint add(self, ndarray a, bint descending) except -1
    cdef object order(self, int axis, ndarray out, ndarray begins)

# The arrays of fields by which an array is sorted; None: NumPy alone knows its order.
cdef list sort_fields(ndarray a, object order)
# The permutation (int64) that stably sorts 1-D arrays of one length by keys[0], then by
# keys[1] ...; downs: of each, whether from the greatest down; None: none.  None: as above.
cdef ndarray sorting_order(list keys, list downs)
# The same, and whether a run of equal items begins at each place in it.
cdef tuple sorting_runs(list keys, list downs)
# What is last in both directions, as greater numbers; or None: there is none.
cdef object missing(ndarray a)

# ---- merges

# Rows of s.n items, one after another, each by merge_sort.
cdef int merge_rows(MergeSort* s, int64_t rows) except -1
# np.sort(a, axis, kind='stable'), or with indices np.argsort, in the order of a compiled
# function `less`; checks all arguments.
cdef object sort_by(object given, object axis, object kind, object order, object stable, object descending,
                    object out, object less, bint indices)
