"""Where results lie: from the beginning of a cache line on.

``malloc`` gives memory that begins 16 bytes into a line, so that each vector which a loop stores
lies in two of them.  Where operands fit into the cache of a core such stores are what takes the
time: sums of two arrays of 512 KB take half of it from aligned ones (Intel Xeon).  Of what does not
fit there, memory is what takes it.
"""
cimport numpy as cnp
from numpy cimport ndarray

cdef enum:
    ALIGNED_FROM = 32768        # bytes
    ALIGNED_TO = 4194304        # from here on NumPy asks for large pages

# As numpy.empty; dtype is a numpy.dtype.
cdef ndarray empty(int ndim, cnp.npy_intp* shape, object dtype, bint fortran)
cdef ndarray empty_of(object shape, object dtype)
