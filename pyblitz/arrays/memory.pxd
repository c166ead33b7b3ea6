"""Where results lie: from the beginning of a cache line on.

``malloc`` gives memory that begins 16 bytes into a line, so that every other vector which a loop
stores lies in two lines.  Where the operands fit into a core's cache, such stores take most of the
time: NumPy adds two arrays of 512 KB in 28 us into such memory, and in 15 into a line (Intel Xeon).
Larger operands wait for memory anyway.
"""
cimport numpy as cnp
from numpy cimport ndarray

cdef enum:
    ALIGNED_FROM = 32768        # bytes
    ALIGNED_TO = 4194304        # from here on NumPy asks for large pages

# As numpy.empty, or another handler of memory that the caller has set; dtype is a numpy.dtype.
cdef ndarray empty(int ndim, cnp.npy_intp* shape, object dtype, bint fortran)
cdef ndarray empty_of(object shape, object dtype)
