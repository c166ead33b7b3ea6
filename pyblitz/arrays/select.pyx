# cython: wraparound=True, boundscheck=True
"""``par_filter``, ``par_partition_by``, ``par_flatnonzero``; and for others: see select.pxd."""
import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t, uint8_t
from numpy cimport ndarray

from pyblitz.arrays.common cimport run, run_fn
from pyblitz.arrays.copy cimport (
    contiguous, few_selected, movable, native, pays_to_move, select_items, set_mask, shape_of)
from pyblitz.arrays.compiled cimport is_compiled
from pyblitz.arrays.evaluate cimport apply, values_of
from pyblitz.arrays.front cimport (
    NONZERO_NS, as_array, Left, bare, convert, left, left_dtype, overrides, owns_functions, pays, private_copy,
    takes_numpys_arguments, too_small)
from pyblitz.arrays.front import operation
from pyblitz.arrays.predicates cimport (
    fitting, has_unknowns, is_boolean, is_lazy, is_value, library_of, predicate_mask, truth_of)
from pyblitz.host.blocks cimport called_alone
from pyblitz.kernels.filter cimport Filter, Unravel, filter_blocks, filter_write, unravel_run
from pyblitz.runtime.atomic cimport u32_load_relaxed

cnp.import_array()


# ---- by a mask --------------------------------------------------------------

cdef Left why_not(ndarray a):
    """Why items are not selected by all workers; None: they are."""
    if not pays_to_move(cnp.PyArray_NBYTES(a)):
        return too_small
    return None if movable(a.dtype) else left_dtype(a.dtype)


cdef bint selects(ndarray a, ndarray mask):
    """Whether the mask is one of the first axes of a."""
    cdef int d
    if cnp.PyArray_NDIM(mask) == 0 or cnp.PyArray_NDIM(mask) > cnp.PyArray_NDIM(a):
        return False
    for d in range(cnp.PyArray_NDIM(mask)):
        if cnp.PyArray_DIM(mask, d) != cnp.PyArray_DIM(a, d):
            return False
    return True


# ---- by a mask or a predicate -----------------------------------------------

cdef bint selects_itself(object a):
    """Whether it is no array, and has its own way to be indexed by a mask."""
    return (not isinstance(a, np.ndarray) and overrides(type(a)) and not is_lazy(a)
            and takes_numpys_arguments(a, "__getitem__"))


cdef object items_of(object a):
    """What has its own way to be indexed by a mask; or else an array."""
    return a if isinstance(a, np.ndarray) or selects_itself(a) else np.asarray(convert(a))


cdef object some_dtype = np.dtype(float)


cdef bint is_shown(object mask):
    """Whether it is a function that is shown the container; compiled ones know arrays only."""
    return callable(mask) and not is_compiled(mask) and not is_lazy(mask) and not hasattr(mask, "py_func")


cdef object own_mask(object a, object mask):
    """The mask that is meant, of a's own library, if its elements have names, units or the like: it
    then knows better what goes with what.  None, if there is no such mask."""
    cdef bint by_numpy = isinstance(getattr(a, "dtype", None), np.dtype)
    if is_shown(mask):
        mask = called_alone(bare(mask), (a,))
        if not is_boolean(mask):
            mask = fitting(truth_of(mask), np.shape(a), "mask")
    elif not by_numpy and is_value(mask, some_dtype):
        mask = np.equal(a, mask)
    elif isinstance(mask, np.ndarray) or not is_boolean(mask):
        return predicate_mask(a, mask, "mask", True) if by_numpy and not callable(mask) else None
    if library_of(mask) == library_of(a):
        return mask
    return fitting(truth_of(mask), np.shape(a), "mask")


cdef object mask_alone(object a, object mask):
    """For a namesake: NumPy's part."""
    found = own_mask(a, mask) if selects_itself(a) else None
    if found is not None:
        return found
    x = np.asarray(a)
    if x.ndim == 0 and isinstance(mask, (bool, np.bool_)):
        return np.asarray(mask)     # of that shape, so it is a mask
    found = predicate_mask(x, mask, "mask", True)
    return private_copy(found) if isinstance(found, np.ndarray) else found


def filtered(a, mask):
    """The namesake of par_filter."""
    if is_lazy(a):
        return par_filter(np.asarray(a), mask)
    a = items_of(a)
    return a[mask_alone(a, mask)]


def partitioned(a, mask):
    """The namesake of par_partition_by."""
    if is_lazy(a):
        return par_partition_by(np.asarray(a), mask)
    a = items_of(a)
    mask = mask_alone(a, mask)
    if not isinstance(mask, np.ndarray) and has_unknowns(mask):
        # Of pandas, where ~mask leaves out what mask does: each item is in one part.
        mask = mask.fillna(False).astype(bool)
    return a[mask], a[~mask]


cdef bint is_row(ndarray a) noexcept:
    """Of numbers that lie side by side."""
    return cnp.PyArray_NDIM(a) == 1 and cnp.PyArray_IS_C_CONTIGUOUS(a) and cnp.PyArray_TYPE(a) < cnp.NPY_OBJECT


cdef object select_by(ndarray x, object mask, bint both):
    """The items that it selects, and the others if both; or what is left to NumPy."""
    cdef ndarray m
    why = why_not(x)
    if why is too_small and cnp.PyArray_CheckExact(mask) and cnp.PyArray_TYPE(<ndarray>mask) == cnp.NPY_BOOL:
        m = mask
        if is_row(x) and is_row(m) and cnp.PyArray_SIZE(x) == cnp.PyArray_SIZE(m) and not both:
            return few_selected(x, <const uint8_t*>cnp.PyArray_DATA(m))
        m = private_copy(mask)
        return (x[m], x[~m]) if both else x[m]
    if why is not None:
        return why
    m = predicate_mask(x, mask, "mask", False)
    if not selects(x, m):
        return left("a mask that does not fit")
    made = select_items(x, m, both)
    return made if both else made[0]


@operation("a", filtered, method="__getitem__", gives="item")
def par_filter(a, mask):
    """The items that a mask or a predicate selects, on all cores: ``a[mask]``.

    Returns
    -------
    ndarray
        A copy of the selected items, or rows, in C order.

    Notes
    -----
    O(n) work, in two passes: the mask is counted in blocks, then each block writes
    where the prefix sums say (Blelloch's pack).  Items are stored by vectors, or without
    a branch, so a random mask costs nearly what a regular one does.  What is not contiguous is copied
    first.  Objects are left to NumPy.  A container
    that is indexed by a mask in its own way, as one of pandas, is.  What a mask itself
    masks is not selected.

    Examples
    --------
    >>> x = np.arange(6)
    >>> pb.par_filter(x, x % 2 == 0)
    array([0, 2, 4])
    """
    return select_by(as_array(a), mask, False)


@operation("a", partitioned, method="__getitem__", gives="item")
def par_partition_by(a, mask):
    """The items that a mask or a predicate selects, and the others, on all cores:
    ``a[mask], a[~mask]`` in one pass over ``a``.

    Returns
    -------
    selected, others : ndarray
        Two arrays; each keeps the order of ``a``.

    Notes
    -----
    O(n) work; see ``par_filter``.

    Examples
    --------
    >>> x = np.arange(6)
    >>> pb.par_partition_by(x, x % 2 == 0)
    (array([0, 2, 4]), array([1, 3, 5]))
    """
    return select_by(as_array(a), mask, True)


# ---- what is not zero -------------------------------------------------------

cdef object flatnonzero_of_mask(ndarray mask):
    cdef Filter s
    cdef ndarray result
    if not pays(cnp.PyArray_SIZE(mask), NONZERO_NS) or cnp.PyArray_TYPE(mask) != cnp.NPY_BOOL:
        return np.flatnonzero(private_copy(mask))
    mask = contiguous(mask)
    _kept = set_mask(&s, mask, 8)
    result = np.empty(s.before[filter_blocks(&s)], np.int64)
    s.src = s.no = NULL
    s.yes = <char*>cnp.PyArray_DATA(result)
    run(<run_fn>filter_write, &s, "the selection")
    if u32_load_relaxed(&s.changed):
        return flatnonzero_of_mask(mask.copy())
    return result.view(np.intp)


cdef object mask_of(ndarray a):
    if cnp.PyArray_TYPE(a) == cnp.NPY_BOOL:
        return a
    if a.dtype.kind in "mM":
        # Not a time is not zero, and equal to nothing.
        a = native(a).view(np.int64)
    elif a.dtype.kind not in "iufc":
        return None
    return values_of(apply(np.not_equal, [a, 0], {}))


cdef object nonzero(ndarray a):
    cdef Unravel u
    cdef ndarray flat, columns, shape
    if not pays(cnp.PyArray_SIZE(a), NONZERO_NS) or cnp.PyArray_NDIM(a) == 0:
        return too_small
    mask = mask_of(a)
    if mask is None:
        return left_dtype(a.dtype)
    flat = flatnonzero_of_mask(mask)
    if cnp.PyArray_NDIM(a) == 1:
        return (flat,)
    shape = np.array(shape_of(a), np.int64)
    columns = np.empty((cnp.PyArray_NDIM(a), cnp.PyArray_SIZE(flat)), np.int64)
    u.flat = <const int64_t*>cnp.PyArray_DATA(flat)
    u.columns = <int64_t*>cnp.PyArray_DATA(columns)
    u.n = cnp.PyArray_SIZE(flat)
    u.dims = cnp.PyArray_NDIM(a)
    u.shape = <const int64_t*>cnp.PyArray_DATA(shape)
    run(<run_fn>unravel_run, &u, "the coordinates")
    return tuple(columns.view(np.intp))


def flatnonzero(a, predicate=None):
    """The namesake of par_flatnonzero."""
    if predicate is None:
        return np.flatnonzero(booleans_apart(a))
    x = a if isinstance(a, np.ndarray) else np.asarray(a)
    mask = fitting(predicate_mask(x, predicate, "predicate", True), (<object>x).shape, "predicate")
    return np.flatnonzero(booleans_apart(mask))


cdef object booleans_apart(object a):
    if not (isinstance(a, (np.ndarray, list, tuple)) or owns_functions(type(a))):
        # What may share its memory with somebody.
        a = convert(a)
    return private_copy(a) if isinstance(a, np.ndarray) and a.dtype == np.bool_ else a


@operation("a", flatnonzero, ns=NONZERO_NS)
def par_flatnonzero(a, predicate=None):
    """The indices of all items that are not zero, on all cores: ``np.flatnonzero``.

    Parameters
    ----------
    predicate : number, array_like of bool, ufunc, compiled kernel or callable, optional
        What is to be true of the items instead, as for :func:`par_find_first`.

    Returns
    -------
    ndarray of intp
        Indices into the flattened array, ascending.

    Raises
    ------
    TypeError, ValueError
        What ``np.flatnonzero`` raises for the same mistake; a predicate that does not fit.

    Notes
    -----
    O(n) work: numbers are compared with zero, which takes a byte for each, then as
    for ``par_filter``.  Other types than booleans, numbers and times are left to NumPy.

    Examples
    --------
    >>> pb.par_flatnonzero([0, 3, 0, 1])
    array([1, 3])
    """
    cdef ndarray x = as_array(a)
    if predicate is not None:
        if x.dtype.kind not in "biufcmM":
            return left_dtype(x.dtype)
        mask = fitting(predicate_mask(x, predicate, "predicate", False), (<object>x).shape, "predicate")
    else:
        mask = mask_of(x)
        if mask is None:
            return left_dtype(x.dtype)
    return flatnonzero_of_mask(mask)
