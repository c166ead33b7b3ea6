"""Compiled functions, recognised by type and signature: capsules,
``scipy.LowLevelCallable``, ctypes and cffi functions, Numba's ``cfunc``."""
from pyblitz.kernels.user cimport Kernel

cdef class CompiledKernel:
    """A C function that was recognised, with what it takes and gives."""
    cdef Kernel kernel
    cdef bint block         # whether it takes blocks of elements, not single ones
    cdef str signature
    cdef object dtype       # the dtype of all inputs and the output, or of what is compared, or None
    cdef bint gives_int     # a range kernel: whether it returns int; a comparison: more than a byte
    cdef tuple form         # what its signature says
    cdef object owner       # what keeps the function's memory alive

# None when fn is no compiled function; TypeError when it is one that cannot be called
# in this way.
cdef CompiledKernel as_kernel(object fn)
cdef bint is_compiled(object fn)
# TypeError when a result of this dtype is asked for, and it gives another.
cdef int check_dtype(CompiledKernel k, object dtype) except -1
cdef CompiledKernel as_range_kernel(object fn)
# int less(const void*, const void*[, void*]), or with a result of one byte.
cdef CompiledKernel as_less(object fn)
