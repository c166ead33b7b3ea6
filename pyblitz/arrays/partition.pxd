"""Partitions."""

cdef enum NumpysVectors:
    NUMPYS_ARE_SLOW         # or there are none
    NUMPYS_ARE_AVX2
    NUMPYS_ARE_AVX512

# By which of its vectors NumPy partitions.  Tests set it.
cdef NumpysVectors vectors_of_numpy
