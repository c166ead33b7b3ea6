"""A parallel loop: the Mandelbrot set, row by row, into a NumPy array.

The array is made and typed in the ``def`` function; the kernel gets a pointer
to its first item.  Rows differ in cost by a factor of hundreds, which is no
concern of this module: a part that turns out long is split and shared again.
"""
import numpy as np

from pyblitz cimport Worker, parallel_for

cdef struct Image:
    int* pixels
    Py_ssize_t width
    Py_ssize_t height
    int limit


cdef inline int steps_at(double cx, double cy, int limit) noexcept nogil:
    """Steps until the orbit of the point leaves the circle of radius 2."""
    cdef double x = 0, y = 0, xx = 0, yy = 0
    cdef int k = 0
    while k < limit and xx + yy <= 4:
        y = 2 * x * y + cy
        x = xx - yy + cx
        xx = x * x
        yy = y * y
        k += 1
    return k


cdef int rows(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi) noexcept nogil:
    cdef Image* image = <Image*>ctx
    cdef Py_ssize_t row, column
    cdef double cx, cy
    for row in range(lo, hi):
        cy = -1.25 + 2.5 * row / image.height
        for column in range(image.width):
            cx = -2.0 + 2.5 * column / image.width
            image.pixels[row * image.width + column] = steps_at(cx, cy, image.limit)
    return 0


cdef object draw(Py_ssize_t width, Py_ssize_t height, int limit, bint parallel):
    cdef Image image
    cdef int[:, ::1] pixels
    if width < 1 or height < 1:
        raise ValueError(f"an image of {width} by {height} pixels has none")
    pixels = np.empty((height, width), dtype=np.intc)
    image.pixels = &pixels[0, 0]
    image.width = width
    image.height = height
    image.limit = limit
    with nogil:
        if parallel:
            # NULL: this thread is outside; 0: pyblitz finds the chunk size.
            parallel_for(NULL, height, rows, &image, 0)
        else:
            rows(NULL, &image, 0, height)
    return np.asarray(pixels)


def mandelbrot(Py_ssize_t width, Py_ssize_t height, int limit=200):
    """Steps of each pixel, on all threads of the pool."""
    return draw(width, height, limit, True)


def mandelbrot_serial(Py_ssize_t width, Py_ssize_t height, int limit=200):
    """The same in this thread alone."""
    return draw(width, height, limit, False)
