"""Reductions of all elements of expressions, for ``par_reduce`` and its relatives and for the
ends of ``par_iter``.

The elements are cut into blocks and the blocks' results joined in a tree, both by the length
alone (kernels/reduce): the same bits for any number of threads.  *Parts* are nodes that lie
one behind the other, as in a chain.  Values, dtypes, warnings and the signs of zeros are
NumPy's, except for how rounding operations are grouped.
"""
from numpy cimport ndarray
from pyblitz.arrays.common cimport Resolved
from pyblitz.arrays.compiled cimport CompiledKernel
from pyblitz.arrays.nodes cimport Node
from pyblitz.kernels.reduce cimport arg_fn

# ``op.reduce`` of all elements, a scalar; initial: np._NoValue, or what to start from.  r: how
# op was resolved, or None.
cdef object reduce_node(object op, Node node, object initial, Resolved r)
cdef object reduce_parts(object op, list parts, object initial)
# (the result as an array of no dimension, None of nothing; how many elements there were);
# None: op has no loop for it.
cdef tuple fold_node(object op, Node node, Resolved r)
# By compiled functions.  initial: an identity, or no value.
cdef object fold_kernel(CompiledKernel k, CompiledKernel combine, list nodes, object initial)
# Two reductions in one pass, of one dtype that stays, or None: (a, b, items).
cdef tuple reduce_two(object op1, Node one, object op2, Node two)
# The type in which means of a dtype are computed, or None.
cdef object mean_type(object dtype)
# None: of nothing.
cdef object mean_of(list parts)
cdef object variance_of(list parts, object ddof)
cdef bint any_of(list masks) except -1
# Whether its elements lie side by side, in whatever order.
cdef bint is_row(ndarray a) noexcept
cdef object dot_row(ndarray x, ndarray y)
# Where the least or greatest element is, by NumPy's function for a row.
cdef object arg_row(ndarray x, arg_fn f)
