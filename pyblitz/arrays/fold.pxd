"""Reductions of all elements of expressions, for ``par_reduce`` and its relatives and for the
ends of ``par_iter``.

The elements are cut into blocks and the blocks' results joined in a tree, both by the length
alone (kernels/reduce): the same bits for any number of threads.  *Parts* are nodes that lie
one behind the other, as in a chain.  Values, dtypes, warnings and the signs of zeros are
NumPy's, except for how rounding operations are grouped.
"""
from libc.stdint cimport uint32_t
from numpy cimport ndarray
from pyblitz.arrays.common cimport Resolved
from pyblitz.arrays.compiled cimport CompiledKernel
from pyblitz.arrays.nodes cimport Node
from pyblitz.kernels.reduce cimport arg_fn

# ``op.reduce`` of all elements, as a scalar.  initial is what the reduction starts from, or
# np._NoValue; r is how op was resolved, or None where that is still to be done.
cdef object reduce_node(object op, Node node, object initial, Resolved r)
# The same of an array, r being known.
cdef object reduce_array(object op, ndarray a, object initial, Resolved r)
cdef object reduce_parts(object op, list parts, object initial)
# Whether parts of a product overflowed while others underflowed, by what it met: then only NumPy's
# order gives what NumPy's does.
cdef bint is_lost(object op, object value, uint32_t flags) except -1
# A pair: the result as a 0-d array, or None if there was no element; and the number of elements.
# None, if op has no loop for this dtype, or the product is lost.
cdef tuple fold_node(object op, Node node, Resolved r)
# The sum of all parts in their own dtype, plus a start, rounded once to another dtype; None: there is no
# element, or no loop.  name: the function that reports errors of floating point.
cdef object sum_rounded(list parts, object dtype, object start, str name)
# As fold_node, by a compiled kernel and another that combines its results, if there is one.  initial is
# an identity, or np._NoValue.
cdef object fold_kernel(CompiledKernel k, CompiledKernel combine, list nodes, object initial)
# (the least, the greatest) of an array of numbers or times; of an empty one, NumPy's ValueError.
cdef tuple extremes_of(ndarray a)
# The same by vectors, or None: there are none for it, or there is a NaN.
cdef tuple extremes_row(ndarray a)
# Two reductions in one pass, as a pair; or None where one pass cannot do both, or there is no element.
cdef tuple reduce_two(object op1, Node one, object op2, Node two)
# The dtype in which np.mean computes the mean of this dtype, or None if it has no mean here.
cdef object mean_type(object dtype)
# These two return None if there is no element.
cdef object mean_of(list parts)
cdef object variance_of(list parts, object ddof)
cdef bint any_of(list masks) except -1
# Whether the elements of a are aligned and side by side, in C or in Fortran order.
cdef bint is_row(ndarray a) noexcept
cdef object dot_row(ndarray x, ndarray y)
# The position of the least or greatest element, where f is NumPy's function for one row.
cdef object arg_row(ndarray x, arg_fn f)
