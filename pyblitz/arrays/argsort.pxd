"""What sorts indices, for the operations that build on it."""
from libc.stdint cimport intptr_t
from numpy cimport ndarray
from pyblitz.kernels.argsort cimport Field, FieldKind

cdef class Fields:
    """What arrays of one shape are sorted by, the most significant first."""
    cdef Field* fields
    cdef int n
    cdef list arrays            # that they are in
    cdef int put(self, ndarray a, FieldKind kind, intptr_t offset, int size, bint descending) except -1
    cdef bint add(self, ndarray a, bint descending) except -1
    cdef object order(self, int axis, ndarray out, ndarray begins)

# The permutation (intp) that stably sorts 1-D arrays of one length by keys[0], then by
# keys[1] ...; None when NumPy is to do it.
cdef object sorting_order(list keys, bint descending)
# That of an ascending sort, and whether a run of equal items begins at each place in it.
cdef object sorting_runs(list keys)
# The arrays of fields by which an array is sorted, or None.
cdef list sort_fields(ndarray a, object order)
# Whether a kind is stable, as np.sort understands it.
cdef bint wants_stable(object kind, object stable)
# Of the parameter and a kind that was given.
cdef bint goes_down(object descending, object kind) except -1
# np.sort or np.argsort with `descending`, whatever the version of NumPy.
cdef object by_numpy(object fn, object a, object axis, object kind, object order, object stable, bint descending)
# An `out` for results of this dtype along an axis of `a`.
cdef object check_out(object a, object axis, object out, object dtype)
