"""The front door: what all public functions of arrays share.

A public function is a *plan*: a Cython function of plain arrays, with a signature, a
docstring and a namesake.  ``operation`` makes an ``Operation`` of it, which users call,
and which does for all of them, once:

receive   Whatever users have becomes plain arrays, without a copy where its protocol
          allows that: lists, buffers, ``__array__``, ``__dlpack__``, subclasses of arrays.
          A container with ``__array_ufunc__`` is asked by its own protocol, with a parallel
          ufunc in the ufunc's place; one with ``__array_function__`` goes to the namesake.
decide    What is too small to share goes to the namesake at once: ``pays``.
progress  ``progress=``, around the whole call.
return    Of a subclass, what the namesake would return.
go back   What a plan declines (it returns ``left(...)`` or ``too_small``) goes to the
          namesake with the very arguments of the call, and is counted for ``stats``.  Of what
          the namesake reads twice it gets a copy, which no other thread writes.

A call with plain arrays makes no tuple and no dictionary, and otherwise no copy: the door hands
the caller's own arguments on to the plan and, if that declines, to the namesake (PEP 590).
"""
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t
from numpy cimport ndarray
cimport numpy as cnp
from pyblitz.host.pools cimport is_alone

# What things cost: the table is in front.pyx.
cdef double SHARE_NS, DIRECT_NS, DIRECT_CAST_NS, MOVE_NS, REDUCE_NS, ITEM_NS, FIND_NS, NONZERO_NS, COUNT_NS
cdef double SCAN_NS, LOOP_NS, PUT_NS
cdef double DOT_NS, GUFUNC_NS, KEY_NS, SORT_NS, ARGSORT_NS, ORDER_NS, MERGE_NS, UNIQUE_NS, SHORTS_NS
cdef double ISIN_NS, PARTITION_NS, FIRST_NS, TRUTH_NS, RANK_NS, HASH_NS, FLOATS_NS, STRAIGHT_NS
cdef double BIN_NS, COMPLEX_NS, DEAR_NS, DIGIT_NS, FACTOR_NS, WHOLE_NS
cdef int64_t ALONE_BYTES


cdef inline bint pays(int64_t items, double ns) noexcept nogil:
    """Whether to share ``items``, each of which takes NumPy ``ns`` nanoseconds."""
    return <double>items * ns > SHARE_NS


cdef inline bint alone(int64_t bytes) noexcept nogil:
    """Whether to leave what NumPy does as fast to it, for there is no second thread."""
    return bytes <= ALONE_BYTES and is_alone()


cdef object plain_array(object x)


cdef inline object as_array(object x):
    """Of what a plan is given: an array, or a number."""
    return x if cnp.PyArray_CheckExact(x) else plain_array(x)


# Of its own class, for functions of NumPy's that read an item twice and trust that it is the same:
# argsort, lexsort, argpartition, bincount, repeat, reduceat, nonzero, an index of booleans (2.4.6).
# Where another thread writes meanwhile, they write or read out of bounds; to a copy it does not.
cdef ndarray private_copy(ndarray a)


cdef class Left:
    """What a plan returns when the call is its namesake's."""
    cdef readonly str why       # None: too small to be counted

# The default of parameters whose None means something: NumPy's own.
cdef object no_value
cdef Left too_small
# What a plan returns for a reason as in "left to NumPy: par_sort of dtype object".  Also where
# NumPy will refuse the arguments: then it raises, and nothing is counted.
cdef Left left(str why)
cdef Left left_dtype(object dtype)
# Counts a call that was left to its namesake, if its arguments have so many bytes that it is a large one.
# Plans call it that call the namesake themselves.
cdef object count_left(str name, str why, int64_t bytes)
# The reason for a call that goes to the code of t, a container's class.
cdef str own_code(object t)
# The function that was handed over under this name for arrays of this class, or None; and the same for
# x, or for one of the first members of a list or tuple x.
cdef object handed(str name, object t)
cdef object handed_member(str name, object x)
# Raises, if out is no array that can be written, of this shape and dtype; None: any.  swapped: whether
# any byte order will do.
cdef int check_out(object out, tuple shape=*, object dtype=*, bint swapped=*) except -1
# Whether two elements of an array may lie over each other.
cdef bint overlaps_itself(ndarray a) noexcept
cdef bint is_masked(object x)
cdef bint owns_functions(object t)
# Whether a subclass of arrays computes as arrays do.
cdef bint computes_alike(object t)

# Lazy arrays, alone or in lists, become arrays: they are computed once, however many functions then
# read them.  whole: also those in lists that begin with a number.
cdef object computed(object x, bint whole=*)
# Raises TypeError, if x, or a member of the tuple x, is lazy: nothing can be written to it.
cdef int refuse_lazy(str name, object x) except -1
# The plain array of x, without a copy where its protocol allows that; x itself, if NumPy knows no
# array of it.
cdef object convert(object x)
# The same for one of a list of arrays, which the door does not see; masks are refused.
cdef object member(object x, str name, str function)
# Whether a class that is no array's has its own code for ufuncs.
cdef bint overrides(object t)
# Whether NumPy's function can leave the call to a method of x's.  Those of some libraries
# have the names, but take other arguments.
cdef bint takes_numpys_arguments(object x, str method)

cdef enum Gives:
    GIVES_ARRAY     # a plain array, whatever it was given
    GIVES_WRAP      # what the argument's __array_wrap__ makes of it
    GIVES_ROWS      # the same, but of no axis the plain number
    GIVES_SAME      # the argument's own type
    GIVES_ITEM      # what an index of the argument gives
    GIVES_FIRST     # the same, and plain arrays beside it

ctypedef object (*vector_fn)(object self, PyObject** args, size_t nargsf, PyObject* names)

# The base of all objects that are called in the place of an object of NumPy's.
cdef class InPlace:
    cdef vector_fn vector
    cdef readonly object given  # NumPy's object
    cdef object called          # our function, which runs on all cores
    cdef readonly str __name__
    cdef dict __dict__

cdef class Ufunc(InPlace):
    cdef bint used              # whether the container it was handed to has called it
    cdef object by_method(self, str method, str name, tuple args, dict kwargs)
    cdef object alone(self, str method, str why, tuple args, dict kwargs)

cdef inline object bare(object fn):
    """NumPy's ufunc of one of ours; all else as it is."""
    return (<Ufunc>fn).given if type(fn) is Ufunc else fn

cdef class Received:
    """A call's arguments on their way to a plan."""
    cdef list given         # the arguments by position
    cdef dict named         # the arguments by name
    cdef bint is_ufunc      # whether the first is a ufunc that is called, or whose method is
    cdef bint asks          # whether a container is to be asked, by its protocol
    cdef object wrapper     # the argument whose type the result has, or None
    cdef object owner       # the class whose code does the call, or None
    cdef object target      # the array that is written to and returned, or None

cdef class Operation:
    """A public function."""
    cdef vector_fn vector
    cdef object plan        # the Cython function that does the work
    cdef object namesake    # NumPy's function; None: the first argument itself, or its method `method`
    cdef str method         # the method that the namesake calls on what is no array, or None
    cdef bint of_ufunc      # whether the first argument may be a ufunc, whose `method` this is
    cdef tuple names        # the names of the parameters, by position
    cdef dict slots         # the name of each parameter that is an array -> whether it is an output
    cdef uint64_t arrays    # bit k: whether parameter k is an array
    cdef uint64_t outs      # bit k: whether parameter k is an output
    cdef uint64_t twice     # bit k: whether the namesake reads parameter k twice
    cdef int axis           # the position of `axis`, or NOWHERE
    cdef tuple own          # the keywords that the namesake does not know
    cdef int variadic       # from this position on, all arguments are arrays
    cdef Gives gives        # what becomes of the result
    cdef bint masked        # whether the namesake knows masked arrays
    cdef double ns          # what an item of the array at `sized` costs NumPy; 0: the plan decides
    cdef int sized          # the position of that array
    cdef dict __dict__
    cdef bint all_plain(self, PyObject** args, Py_ssize_t n, PyObject* names) except -1
    cdef int refuse_lazy_outs(self, tuple args, dict kwargs) except -1
    cdef bint is_read_twice(self, object where) except -1
    cdef object ask_namesake(self, PyObject** args, Py_ssize_t n, PyObject* names)
    cdef object for_namesake(self, object where, object x)
    cdef object converted(self, object where, object given, object mine)
    cdef bint is_small(self, PyObject* x) noexcept
    cdef dict without_own(self, dict kwargs)
    cdef object go_back(self, str why, tuple args, dict kwargs, int64_t bytes=*)
    cdef bint take_axis(self, list given, dict named) except -1
    cdef str take(self, Received r, object into, object where, str name, bint is_out)
    cdef str take_all(self, Received r)
    cdef object receive(self, tuple args, dict kwargs)
    cdef object by_protocol(self, tuple args, dict kwargs)
    cdef object written_or(self, Received r, tuple args, object result, int i)


cdef class ending:
    cdef vector_fn vector
    cdef object method
    cdef dict __dict__
