# cython: language_level=3, cdivision=True
"""The scalar kernel of library.py's Mandelbrot rows, for par_map: ``api`` puts it among the
module's capsules, with its signature for a name."""

cdef api double escape(double cx, double cy) noexcept nogil:
    """Steps until the orbit of the point leaves the circle of radius 2, 500 at most."""
    cdef double x = 0, y = 0, xx = 0, yy = 0
    cdef int k = 0
    while k < 500 and xx + yy <= 4:
        y = 2 * x * y + cy
        x = xx - yy + cx
        xx = x * x
        yy = y * y
        k += 1
    return k
