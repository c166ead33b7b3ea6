"""Casts from one number type to another, as loops (map.pxd).  No Python, no NumPy."""
from pyblitz.kernels.map cimport loop_fn

# kind is b, i, u or f, and size is in bytes.  NULL, if there is no such loop.  Floats are cast to
# floats only: what becomes of a float that no integer is, NumPy decides.
cdef loop_fn cast_loop(char kind, int size, char to_kind, int to_size) noexcept nogil
