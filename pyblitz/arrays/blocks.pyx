# cython: wraparound=True, boundscheck=True
"""Python functions of arrays, called on blocks: see blocks.pxd."""
import contextvars
import sys
from concurrent.futures import CancelledError

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t
from numpy cimport ndarray

from pyblitz.host.blocks cimport called_alone
from pyblitz.host.progress import with_progress
from pyblitz.arrays.common cimport Slices, may_overlap, same_memory
from pyblitz.arrays.front cimport check_out

cnp.import_array()

cdef enum:
    # Bytes of one block that a Python function is called with.
    BLOCK_CALL_BYTES = 524288
    # Of fewer rows, each may be so dear that eight more are too many.
    CHECKED_ROWS = 1024


# ---- what a function of elements is -----------------------------------------

cdef dict instead():
    """NumPy's functions that are not element by element, and what to call instead."""
    found = {}
    ours = {
        "cumsum": "par_cumsum", "cumprod": "par_cumprod", "sort": "par_sort", "argsort": "par_argsort",
        "partition": "par_partition", "argpartition": "par_argpartition", "unique": "par_unique",
        "sum": "par_sum", "prod": "par_prod", "mean": "par_mean", "std": "par_std", "var": "par_var",
        "min": "par_min", "max": "par_max", "any": "par_any", "all": "par_all", "argmin": "par_argmin",
        "argmax": "par_argmax", "nansum": "par_nansum", "nanmin": "par_nanmin", "nanmax": "par_nanmax",
        "count_nonzero": "par_count_nonzero", "flatnonzero": "par_flatnonzero", "bincount": "par_bincount",
        "cumulative_sum": "par_cumsum", "cumulative_prod": "par_cumprod",
    }
    others = ("nancumsum nancumprod diff ediff1d gradient trapezoid convolve correlate roll rot90 flip fliplr flipud "
              "median average percentile quantile ptp nanmean nanstd nanvar nanmedian interp unwrap")
    for name in list(ours) + others.split():
        if hasattr(np, name):
            found[getattr(np, name)] = ours.get(name)
    for name in np.fft.__all__:
        found[getattr(np.fft, name)] = None
    return found


cdef dict not_elementwise_functions = instead()


cdef int refuse_known(object fn) except -1:
    try:
        known = fn in not_elementwise_functions
    except TypeError:           # it has no hash
        known = False
    if known:
        ours = not_elementwise_functions[fn]
        raise ValueError(f"fn: {fn.__name__} is not elementwise; call "
                         + (f"pyblitz.{ours}" if ours else "it on the whole array"))
    return 0


cdef object wrong_shape(tuple shape, tuple expected):
    return ValueError(
        f"fn returned an array of shape {shape} for a block of shape {expected}; it must be elementwise "
        "(a function of scalars needs elementwise=True)")


cdef object wrong_call(object error):
    """What fn raised for an array, when it is made for scalars; or None."""
    text = str(error)
    for sign in ("truth value of an array", "only length-1 arrays", "only 0-dimensional arrays",
                 "only size-1 arrays"):
        if sign in text:
            return type(error)(f"fn: {text}; it is called with arrays, the blocks, and seems to be made for scalars: "
                               "give elementwise=True")
    return None


cdef object called(object fn, list blocks, tuple expected):
    """What fn gives for blocks, of their shape."""
    try:
        result = called_alone(fn, tuple(blocks))
    except (TypeError, ValueError) as error:
        told = wrong_call(error)
        if told is None:
            raise
        raise told from error
    if result is None:
        raise TypeError("fn returned None for a block; expected an array of the block's shape "
                        "(a function of scalars needs elementwise=True)")
    result = np.asanyarray(result)
    if result.shape != expected:
        raise wrong_shape(result.shape, expected)
    return result


# ---- the check --------------------------------------------------------------

cdef class CheckedRows:
    """A few rows, to be computed again in other company: those at the ends of blocks."""
    cdef object rows            # their positions
    cdef object call            # how fn is called with these: quietly or quietly_or_one
    cdef str advice             # what else to do, for the message
    cdef list ins               # their inputs

    cdef object compare(self, object fn, object out, object casting):
        """ValueError when fn of these rows is not what it was among others, beyond rounding."""
        cdef bint same = False
        ours = out[self.rows]
        try:
            again = np.empty_like(ours)
            # What fn calls is no part of what the caller's progress= counts.
            np.copyto(again, with_progress(nobody, contextvars.copy_context().run,
                                           (self.call, fn, self.ins, ours.shape), {}), casting=casting)
        except (CancelledError, TimeoutError, MemoryError):
            raise               # of a scope around the call, or of the machine
        except Exception as error:
            raise ValueError(self.told()) from error
        if ours.dtype.kind != "O" and ours.tobytes() == again.tobytes():
            return None         # as a rule
        if ours.dtype.kind in "fc":
            with np.errstate(all="ignore"):
                # An error of rounding is small beside what it was made of.
                near = np.sqrt(np.finfo(ours.dtype).eps)
                far = np.abs(ours - again) > near * np.fmax.reduce(
                    [np.abs(ours), np.abs(again)] + [np.abs(a) for a in self.ins if a.dtype.kind in "biufc"])
                same = not (far & ~(np.isnan(ours) & np.isnan(again))).any() and (
                    np.isfinite(ours) == np.isfinite(again)).all()
        else:
            same = bool(np.all((ours == again) | ((ours != ours) & (again != again))))
        if not same:
            raise ValueError(self.told())

    cdef str told(self):
        return (f"fn is not elementwise: rows {self.rows.tolist()} came out otherwise "
                f"when they were computed again by themselves. It is called on blocks; {self.advice}")


def nobody(done, total):
    """Listens to the progress of what nobody asked for."""


def quietly(fn, ins, shape):
    """What floating point has to say of these rows was said.  The function may write to its blocks."""
    with np.errstate(all="ignore"):
        return called(fn, [a.copy() for a in ins], shape)


def quietly_or_one(fn, ins, shape):
    """The same of a function that may give one number for a block, which then is all elements'."""
    with np.errstate(all="ignore"):
        return np.broadcast_to(called_alone(fn, tuple([a.copy() for a in ins])), shape)


cdef CheckedRows rows_to_check(list ins, int64_t grain, int64_t n):
    cdef CheckedRows s = CheckedRows()
    last = (n - 1) // grain * grain
    # In an order that is no order.
    s.rows = np.array([n - 1, grain, 0, last, grain // 2, last - 1, grain - 1, (last + n) // 2], np.intp)
    s.ins = [a[s.rows] for a in ins]
    s.call = quietly
    s.advice = ("for running results there are par_cumsum and par_scan, for orders par_sort, and check=False "
                "for a function that is to differ (random numbers)")
    return s


# Two groups, of which neither is in order: so what depends on an extreme item or on places shows in
# one.  They are of the first half and of the second, so that means differ where items rise.
cdef list company = [np.array([21, 12, 29, 8, 25, 17, 30, 14]), np.array([40, 58, 33, 54, 36, 49, 47, 60])]


cdef int check_items(object fn, list ins) except -1:
    cdef CheckedRows s = CheckedRows()
    out = None
    try:
        out = contextvars.copy_context().run(quietly_or_one, fn, ins, ins[0].shape)
    except Exception:
        pass            # it will be raised for a block
    if out is None:
        return 0
    s.call = quietly_or_one
    s.advice = ("if it is to look at all elements, compute what it needs before; a mask, or check=False in map, "
                "for a function that is to differ (random numbers)")
    for rows in company:
        s.rows = rows
        s.ins = [a[rows] for a in ins]
        s.compare(fn, out, "unsafe")
    return 0


# ---- blocks -----------------------------------------------------------------

cdef class BlockMap(Slices):
    cdef object fn
    cdef list ins
    cdef object out
    cdef object casting
    cdef object first       # the result of the first rows, computed to learn the dtype
    cdef int64_t done       # how many these are
    cdef bint fixed         # whether other blocks' dtypes must fit the first's

    cdef object part(self, int64_t lo, int64_t hi):
        if lo < self.done:
            lo = self.done
            if lo >= hi:
                return
        result = called(self.fn, [a[lo:hi] for a in self.ins], (hi - lo,) + self.ins[0].shape[1:])
        if self.out is None:
            self.first = result
        elif self.fixed and not np.can_cast(result.dtype, self.out.dtype, "safe"):
            raise wrong_dtype("a block", result.dtype, self.out.dtype)
        else:
            np.copyto(self.out[lo:hi], result, casting=self.casting)


cdef object wrong_dtype(str what, object dtype, object first):
    return TypeError(f"fn returned {dtype} for {what}, but {first} for the first one; give dtype= or out=")


cdef list options_among(tuple arrays):
    """Of each, whether a function gets it as it is: a number, which takes the arrays' type as in
    NumPy, or None.  Numbers alone are arrays."""
    options = [x is None or type(x) in (int, float, complex, bool) or isinstance(x, np.generic) for x in arrays]
    return [x is None for x in arrays] if all(options) else options


cdef object array_here = object()


cdef class WithOptions:
    """A function of the arrays among its arguments, of which others are options (``np.round(a, 2)``)."""
    cdef object fn
    cdef list given         # the options; array_here where an array is

    def __init__(self, fn, given):
        self.fn = fn
        self.given = given

    def __call__(self, *blocks):
        arrays = iter(blocks)
        result = self.fn(*[next(arrays) if x is array_here else x for x in self.given])
        if result is not None and any([result is x for x in self.given]):
            result = np.full(np.broadcast_shapes(*[b.shape for b in blocks]), result)
        return result


cdef object has_gil = getattr(sys, "_is_gil_enabled", lambda: True)


cdef object map_one_block(object fn, tuple arrays):
    """Of arrays of one shape that are one block; None if they are not."""
    for a in arrays:
        if not cnp.PyArray_CheckExact(a) or a.ndim == 0 or a.shape != arrays[0].shape:
            return None
        if cnp.PyArray_NBYTES(<ndarray>a) > BLOCK_CALL_BYTES or not len(a):
            return None
    # Never one of the inputs.
    return contextvars.copy_context().run(one_call, fn, arrays).copy()


def one_call(fn, arrays):
    return np.asarray(called(fn, [a[:] for a in arrays], arrays[0].shape))


cdef object map_blocks(object fn, tuple arrays, object out, object dtype, object casting, bint checked):
    cdef BlockMap s
    cdef CheckedRows sample = None
    cdef int64_t n, grain, row_bytes
    # Nobody knows what an element takes.  With a GIL, more and smaller blocks gain nothing.
    cdef bint timed = type(fn) is Elementwise and not has_gil()
    if not arrays:
        raise TypeError("par_map: at least one array is needed")
    refuse_known(fn)
    options = options_among(arrays)
    if type(fn) is not Elementwise and any(options) and not all(options):
        fn = WithOptions(fn, [a if option else array_here for a, option in zip(arrays, options)])
        arrays = tuple([a for a, option in zip(arrays, options) if not option])
    if out is None and dtype is None and not timed:
        result = map_one_block(fn, arrays)
        if result is not None:
            return result
    ins = list(np.broadcast_arrays(*[np.asarray(a) for a in arrays]))
    if out is not None:
        check_out(out, ins[0].shape)
    if ins[0].ndim == 0:
        scalar = map_blocks(fn, tuple([a[np.newaxis] for a in ins]),
                            None if out is None else out[np.newaxis], dtype, casting, checked)
        return scalar[0] if out is None else out
    n = ins[0].shape[0]
    row_bytes = max([a[:1].nbytes for a in ins]) if n else 1
    grain = max(<int64_t>1, BLOCK_CALL_BYTES // max(row_bytes, <int64_t>1))
    s = BlockMap("block ", False)
    s.fn = fn
    s.ins = ins
    s.casting = casting
    if checked and n > grain and n >= CHECKED_ROWS:
        # Now, since out may be one of them.
        sample = rows_to_check(ins, grain, n)
    if out is not None:
        for a in ins:
            if may_overlap(out, a) and not same_memory(out, a):
                # Blocks would read what other blocks wrote.
                s.ins = [b.copy() for b in ins]
                break
    if out is None:
        try:
            s.run_part(0, min(1 if timed else grain, n))
        except BaseException as error:
            s.tell(error)
            raise
        s.fixed = dtype is None
        out = np.empty(ins[0].shape, s.first.dtype if dtype is None else dtype)
        np.copyto(out[:len(s.first)], s.first, casting=casting)
        s.done, s.first = len(s.first), None
    s.out = out
    if n > 0:
        s.run(-1 if timed else grain, n, False)
    if sample is not None:
        sample.compare(fn, out, casting)
    return out


# ---- elements ---------------------------------------------------------------

cdef class Elementwise:
    """A function of scalars as one of blocks."""
    cdef object each        # on arrays of objects
    cdef object dtype       # of the results; None: as the first one's
    cdef object text        # the type of text they are: as long as the longest of all, in the end
    cdef bint given         # by the caller, who wants any cast

    def __call__(self, *blocks):
        results = self.each(*[b.astype(object) for b in blocks])
        if self.dtype is None and results.size:
            if results.flat[0] is None:
                raise TypeError("fn returned None; expected a number, or give dtype=object")
            self.dtype = np.asarray(results.flat[0]).dtype
            if self.dtype.kind in "SU":
                self.text, self.dtype = self.dtype.char, np.dtype(object)
        if self.dtype is None:
            return results
        if not self.given and self.dtype.kind in "biufc":
            natural = np.asarray(results.reshape(-1).tolist())
            if natural.shape != (results.size,) or not np.can_cast(natural.dtype, self.dtype, "safe"):
                raise wrong_dtype("some elements", natural.dtype, self.dtype)
        return results.astype(self.dtype)


cdef object map_elements(object fn, tuple arrays, object out, object dtype, object casting):
    cdef Elementwise each = Elementwise()
    each.each = np.frompyfunc(fn, len(arrays), 1) if arrays else None
    if dtype is not None and out is None:
        each.dtype = np.dtype(dtype)
        each.given = True
    elif dtype is None and out is None and np.broadcast(*arrays).size == 0:
        raise ValueError("dtype: without an element to call fn with, it must be given")
    elif out is not None:
        each.given = True
    result = map_blocks(each, arrays, out, dtype, casting, False)
    return result if each.text is None else np.asarray(result).astype(each.text)[()]
