"""What expressions come to: arrays, positions, counts; reductions are in fold.pxd.

For all operations that compute nodes.  An expression of any size is computed: a part of one
that is too large for a program first, into an array.  What no program can do is done by
NumPy, at once.  Errors and warnings are NumPy's; elements are read while one of these
functions runs, not before.
"""
cimport numpy as cnp
from numpy cimport ndarray, ufunc
from pyblitz.arrays.nodes cimport Node
from pyblitz.arrays.program cimport Program

cdef extern from "numpy/arrayobject.h":
    cnp.npy_intp PyArray_CountNonzero(ndarray a) except -1

# args: nodes, arrays and numbers, which become nodes.
cdef object apply(ufunc u, list args, dict options)
cdef Node apply_where(list args)
# The program of these nodes, or None where several are too large for one.  Of a single node that is
# too large, parts are computed first.
cdef Program program_of(list nodes, list outs, bint in_order)
# The values of one step or several of a few elements, or of those that a filter keeps, by this thread alone;
# None: it is something else, or takes long enough to be shared.  quick: only of what no step is dear.
cdef ndarray few_values(Node node, bint quick)
# Whether NumPy's call takes less time than a program for such an array.
cdef bint is_few_items(ndarray a) noexcept
cdef object array_of(Node node)
# A new array.
cdef object values_of(Node node)
# The values of nodes of one domain, as arrays.  out: an array for the only one.
cdef list collect(list nodes, object out)
cdef object find_node(Node node, int which)
cdef object count_node(Node node)
cdef int run_for_effects(Node node) except -1
