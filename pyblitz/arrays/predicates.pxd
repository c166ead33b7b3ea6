"""What may stand where a value or predicate may.

A mask: booleans, as an array, list or container.  A value: elements that are equal to it.
A function, which gives a truth value for each element: a ufunc, a compiled kernel, or a
callable.  A lazy array of truth values.  Anything else raises TypeError.
"""
from numpy cimport ndarray
from pyblitz.arrays.nodes cimport Node

cdef enum Stand:
    STANDS_MASK         # an array of bool
    STANDS_VALUE
    STANDS_FUNCTION     # or a lazy array

# (Stand, what as that).  dtype: of the elements; name: of the parameter.
cdef tuple stands_for(object what, object dtype, str name)
# The mask; ValueError, if it has another shape than the elements.
cdef object fitting(object mask, object shape, str name)
# The truth of each element, lazily; a mask must have their shape.
cdef Node predicate_node(object what, Node node, str name)
# The same as an array of bool; a mask is returned as it is.  At once, with NumPy: `alone`.
cdef ndarray predicate_mask(object a, object what, str name, bint alone)
# Whether what is lazy; it is an array only when somebody asks for its elements.
cdef bint is_lazy(object what)
# What a predicate gave, as an array of bool; what is unknown is false.
cdef object truth_of(object found)
# The same of what a predicate will give, if that has a way to say that something is unknown.
cdef object of_known(object predicate)
# Whether something that is no function is the value of one element of such a dtype.
cdef bint is_value(object what, object dtype)
# Whether its class has a way to say that an element is not known.
cdef bint has_unknowns(object x)
# Whether all its elements are booleans, some of them unknown perhaps.
cdef bint is_boolean(object x)
# The name of the package that its class is of.
cdef str library_of(object x)
