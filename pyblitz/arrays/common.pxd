"""What the operations on arrays share.

The modules of this folder are the only ones that know NumPy: they check arguments,
pick a kernel, release the GIL, and raise what NumPy would raise.  Every operation
takes the first of these roads that is open to it:

direct   NumPy itself, in the caller: what is too small to share, what NumPy
         refuses (so that it says so itself), subclasses and other types with
         ``__array_ufunc__``, objects.
loop     A ufunc's own inner loop, or a compiled kernel, on raw pointers by
         every worker, without the GIL.  For aligned native data whose dtypes
         match a loop exactly.
sliced   NumPy itself on slices, by every worker, in a copy of the caller's
         context.  It holds the GIL only around each slice's loop.
"""
cimport numpy as cnp
from libc.stdint cimport int64_t, uint32_t
from numpy cimport ndarray, ufunc
from pyblitz.kernels.map cimport Map, loop_fn
from pyblitz.kernels.numbers cimport NumberKind
from pyblitz.kernels.merge cimport compare_fn
from pyblitz.kernels.radix cimport sort_fn
from pyblitz.kernels.reduce cimport arg_fn
from pyblitz.runtime.pool cimport Worker

# NumPy's own sorts.
cdef object numpys

cdef enum:
    # Elements of a slice that is worth taking the GIL for.
    SLICE_ITEMS = 65536
    # And of a first slice whose cost is unknown.
    FIRST_ITEMS = 4096
    # How long a slice of unknown cost should take, for the same reason.
    SLICE_NS = 250000

# ---- errors

# A kernel of this call's, without the GIL, with its errors; a kernel takes one pointer.
ctypedef int (*run_fn)(Worker* w, void* ctx) noexcept nogil
cdef int run(run_fn fn, void* ctx, str what) except -1
cdef object report_flags(str name, uint32_t flags)

# ---- sliced

cdef class Flags:
    cdef uint32_t seen

cdef class Slices:
    cdef object context
    cdef Flags flags        # None: NumPy reports them itself
    cdef str what
    cdef object failure     # what the lowest part that failed so far raised
    cdef int64_t failed_lo
    cdef int64_t failed_hi
    cdef object part(self, int64_t lo, int64_t hi)
    cdef object join(self, int64_t lo, int64_t mid)
    cdef object run_part(self, int64_t lo, int64_t hi)
    cdef object tell(self, object error)
    cdef object run_join(self, int64_t lo, int64_t mid)
    cdef int run(self, int64_t grain, int64_t n, bint joins) except -1

# part(lo, hi) for parts of `grain` of 0 .. n (as Slices.run takes it), by all workers; what
# they meet in floating point is reported as NumPy's `reports` would.
cdef int slices(str what, object part, int64_t grain, int64_t n, str reports) except -1
cdef tuple at(int axis, int64_t lo, int64_t hi)
# Any integer that NumPy takes as an axis, from 0 on; AxisError or TypeError, in its words.
cdef int axis_of(object axis, int ndim) except -1
# Of reductions: None for all, one, or several.
cdef set axes_of(object axis, int ndim)
cdef int longest_axis(tuple shape, object among)

# ---- NumPy's own loops

cdef extern from "numpy/arrayobject.h":
    ctypedef struct PyArray_ArrFuncs:
        sort_fn sort[3]
        compare_fn compare
        arg_fn argmax
        arg_fn argmin
    PyArray_ArrFuncs* PyDataType_GetArrFuncs(cnp.PyArray_Descr*)

# ---- loops

cdef class Resolved:
    cdef loop_fn loop       # NULL: not to be called without the GIL
    cdef void* data
    cdef tuple dtypes       # of all operands; None: NumPy refused
    # Nanoseconds an element took one thread, about, when last seen; 0: never.
    # It chooses the road of a map, never its result.
    cdef double pace
    cdef bint numeric       # all dtypes are native numbers or times
    cdef bint associative   # neighbours may be combined in any grouping

cdef Resolved resolve(ufunc fn, tuple given, object signature, str casting, bint reduction)
cdef bint is_numpys(object fn)
# np.clip's.
cdef object clip
# Associative ufuncs without an identity; for these, `initial` may be applied any
# number of times.
cdef set idempotent
cdef bint is_associative(object op)
cdef bint may_overlap(ndarray a, ndarray b) noexcept
cdef bint same_memory(ndarray a, ndarray b) noexcept
cdef bint outputs_are_safe(list ops, int inputs) noexcept
cdef bint broadcast_shape(list ops, int inputs, int* ndim, cnp.npy_intp* shape) noexcept
cdef int make_outputs(list ops, int inputs, tuple dtypes, int ndim, cnp.npy_intp* shape) except -1
# The operands, with outputs in that memory order where none were given.
cdef list allocated(list ops, int inputs, tuple dtypes, str order)
cdef int fill_map(Map* m, list ops, int ndim, cnp.npy_intp* shape, int first_output) noexcept
cdef object run_map(Map* m, list ops, str name)
# What the kernels take items of it for; NO_NUMBER also in another byte order than the machine's.
cdef NumberKind number_of(cnp.dtype d) noexcept
