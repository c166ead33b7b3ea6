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
from libc.stdint cimport int64_t, uint32_t, uint64_t
from numpy cimport ndarray, ufunc
from pyblitz.kernels.blocks cimport sort_fn
from pyblitz.kernels.map cimport Map, loop_fn
from pyblitz.kernels.numbers cimport NumberKind
from pyblitz.kernels.merge cimport compare_fn
from pyblitz.kernels.reduce cimport arg_fn
from pyblitz.runtime.pool cimport Worker

# NumPy's own sorts, even while `enable` has put ours in their place.
cdef object numpys

cdef enum:
    # A slice has so many elements at least, or it is not worth to take the GIL for it.
    SLICE_ITEMS = 65536
    # The first slice has so many where nobody knows how long an element takes.
    FIRST_ITEMS = 4096
    # The later ones are as long as takes so many nanoseconds.
    SLICE_NS = 250000

# ---- errors

# Runs a kernel as a worker, without the GIL, and raises what it failed with.
ctypedef int (*run_fn)(Worker* w, void* ctx) noexcept nogil
cdef int run(run_fn fn, void* ctx, str what) except -1
cdef int report_flags(str name, uint32_t flags) except -1

# ---- sliced

cdef class Flags:
    cdef uint32_t seen

cdef class Slices:
    cdef object context
    cdef Flags flags        # the floating-point errors so far; None: NumPy reports them itself
    cdef str what           # the name of the operation, for messages
    cdef object failure     # what the lowest part of those that failed so far has raised
    cdef int64_t failed_lo  # where that part begins
    cdef int64_t failed_hi  # and ends
    cdef object part(self, int64_t lo, int64_t hi)
    cdef object combine(self, int64_t lo, int64_t mid)
    cdef object run_part(self, int64_t lo, int64_t hi)
    cdef object tell(self, object error)
    cdef object run_combine(self, int64_t lo, int64_t mid)
    cdef int run(self, int64_t grain, int64_t n, bint combines) except -1

# All workers call part(lo, hi) for slices of 0 .. n, with `grain` as Slices.run takes it.  Errors of
# floating point are reported once, as errors of NumPy's function `reports`.
cdef int slices(str what, object part, int64_t grain, int64_t n, str reports) except -1
cdef tuple at(int axis, int64_t lo, int64_t hi)
# np.ndim, without its wrapper in Python for arrays.
cdef int ndim_of(object x) except -1
# The axis as a number from 0 to ndim - 1.  Takes any integer that NumPy takes, and raises AxisError
# or TypeError in NumPy's words.
cdef int axis_of(object axis, int ndim) except -1
# The same for reductions, whose axis may also be None, which means all, or a tuple.
cdef set axes_of(object axis, int ndim)
cdef int longest_axis(tuple shape, object among)

# ---- NumPy's own loops

# Whether it is of half precision: np.float16 is equal to one of the two byte orders only.
cdef bint is_half(cnp.dtype dtype)

cdef extern from "numpy/arrayobject.h":
    ctypedef struct PyArray_ArrFuncs:
        sort_fn sort[3]
        compare_fn compare
        arg_fn argmax
        arg_fn argmin
    PyArray_ArrFuncs* PyDataType_GetArrFuncs(cnp.PyArray_Descr*)

# ---- loops

cdef class Resolved:
    cdef ufunc fn
    cdef loop_fn loop       # the ufunc's inner loop; NULL: it must not be called without the GIL
    cdef void* data         # what the loop takes as its last argument
    cdef tuple asked        # what it was resolved for: what was given, and the signature if there is one
    cdef tuple dtypes       # the dtypes of all operands; None: NumPy refuses these
    # How many nanoseconds an element takes one thread, as far as is known from the last calls, which may have
    # been shared; 0: nothing is known.  It decides how a map is computed, never its result.
    cdef double pace
    cdef bint numeric       # whether it is elementwise, and all dtypes are native numbers or times
    cdef bint folds         # of a reduction: whether its results are numbers or times that it can go on with
    cdef bint associative   # whether neighbours may be combined in any grouping
    cdef bint dear          # whether an element takes it several times as long as to read one

# A table of what was asked for lately is a list of LATELY_PLACES.  The addresses of up to three things
# say which two of these places an answer may be in: with one, two questions that are asked in turn
# might take it from each other each time.
cdef enum:
    LATELY_BITS = 8
    LATELY_PLACES = 2 << LATELY_BITS

cdef inline Py_ssize_t lately_place(void* a, void* b, void* c) noexcept:
    """The first of the two."""
    cdef uint64_t mixed = <uint64_t>a * 0x9E3779B97F4A7C15u ^ <uint64_t>b * 0xC2B2AE3D27D4EB4Fu
    return 2 * <Py_ssize_t>((mixed ^ <uint64_t>c * 0x165667B19E3779F9u) >> (64 - LATELY_BITS))

# Writes x to the first of the two places; what was there moves to the second.
cdef int keep_lately(list places, Py_ssize_t place, object x) except -1

cdef Resolved resolve(ufunc fn, tuple given, object signature, str casting, bint reduction)
# The same without a signature, if these very dtypes were asked for not long ago; else None.
cdef Resolved resolved_lately(ufunc fn, tuple given)
# The same, whatever the outputs were to be, of a ufunc of one or two inputs and one output; second:
# None, if there is one input.
cdef Resolved resolved_of(ufunc fn, object first, object second)
# What ``op.reduce`` does with items of this dtype.
cdef Resolved resolve_reduction(ufunc op, object dtype)
cdef bint is_numpys(object fn)
# Whether it is not dear for any numbers but halves.
cdef bint is_quick(object fn)
cdef bint is_dear(object fn, tuple dtypes) except -1
# The ufunc inside an object that Numba's vectorize or guvectorize makes, or None.
cdef object numbas_ufunc(object fn)
# The ufunc that np.clip calls.
cdef object clip
# The associative ufuncs without an identity.  To apply `initial` several times changes nothing.
cdef set idempotent
cdef bint is_associative(object op)
cdef bint may_overlap(ndarray a, ndarray b) noexcept
cdef bint same_memory(ndarray a, ndarray b) noexcept
cdef bint outputs_are_safe(list ops, int inputs) noexcept
cdef bint broadcast_shape(list ops, int inputs, int* ndim, cnp.npy_intp* shape) noexcept
cdef int make_outputs(list ops, int inputs, tuple dtypes, int ndim, cnp.npy_intp* shape) except -1
# What an elementwise operation of this array would make, not yet filled.
cdef object made_like(ndarray a, object dtype)
# The operands; an output that was not given is allocated in memory order `order`.
cdef list allocated(list ops, int inputs, tuple dtypes, str order)
cdef int fill_map(Map* m, list ops, int ndim, cnp.npy_intp* shape, int first_output) noexcept
cdef object run_map(Map* m, list ops, str name)
# The loop that casts native numbers, each where its type may lie; NULL: there is none.
cdef loop_fn number_cast(cnp.dtype of, cnp.dtype to) noexcept
# The kind of number that kernels take this dtype's items for.  NO_NUMBER, if it is none, or has
# another byte order than the machine's.
cdef NumberKind number_of(cnp.dtype d) noexcept
