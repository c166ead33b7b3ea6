"""Calls of generalised ufuncs, such as ``np.matmul``, on plain arrays and numbers: shared along
the longest loop dimension, by NumPy on slices of it."""
from numpy cimport ufunc

# The result, or what is left to NumPy.
cdef object map_gufunc(ufunc fn, tuple arrays, object out, object where, object dtype,
                       object casting, dict extra)
