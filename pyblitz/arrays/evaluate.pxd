"""What expressions come to: arrays, reductions, positions, counts.

For all operations that compute nodes.  An expression of any size is computed: a part of one
that is too large for a program first, into an array.  What no program can do is done by
NumPy, at once.  Errors and warnings are NumPy's; elements are read while one of these
functions runs, not before.
"""
from numpy cimport ufunc
from pyblitz.arrays.common cimport Resolved
from pyblitz.arrays.compiled cimport CompiledKernel
from pyblitz.arrays.nodes cimport Node
from pyblitz.arrays.program cimport Program
from pyblitz.kernels.reduce cimport Fold, Reduce

cdef object apply(ufunc u, tuple args, dict options)
cdef Program program_of(list nodes, list outs, bint in_order)
cdef list collect(list nodes, object out)
cdef bint set_fold(Fold* f, object op, Resolved r, int slot) except -1
cdef int run_reduce(Reduce* red) except -1
cdef tuple fold_node(object op, Node node, Resolved r)
cdef object fold_kernel(CompiledKernel k, CompiledKernel combine, list nodes, object initial)
cdef object reduce_node(object op, Node node, object initial)
cdef tuple reduce_two(object op1, Node one, object op2, Node two)
cdef object find_node(Node mask, int which)
cdef object count_node(Node mask)
cdef int run_node(Node node) except -1
