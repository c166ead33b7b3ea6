"""Casts from one number type to another, as loops (map.pxd).  No Python, no NumPy."""
from pyblitz.kernels.map cimport loop_fn

# kind: b, i, u or f; size: bytes.  NULL: there is none.  From floats only to floats: what
# a number that does not fit becomes is NumPy's to say.
cdef loop_fn cast_loop(char kind, int size, char to_kind, int to_size) noexcept nogil
