"""NumPy itself on all cores: its ufuncs' inner loops and its sorts, replaced by ones that are shared.

A ufunc reads its loop from a table at each call, and `PyUFunc_ReplaceLoopBySignature` puts another
one there.  NumPy before 2.5 reads its sorts from the `sort` and `argsort` of a dtype's
`PyArray_ArrFuncs`; later ones have nothing public of this kind, so that only the functions that
sort are replaced, in the namespace `numpy`.  Nothing else of NumPy is written to, and of both
tables it is tried whether they are read at all.
"""
import contextlib
import sys
import threading
import warnings

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc
from numpy cimport ufunc

from pyblitz.host.config import share_from
from pyblitz.host.pools cimport run_to_end
from pyblitz.arrays.common cimport numpys
from pyblitz.arrays.argsort import par_argsort
from pyblitz.arrays.front import InPlace, shared
from pyblitz.arrays.sorting cimport key_kinds
from pyblitz.kernels.blocks cimport sort_fn
from pyblitz.kernels.loops cimport (
    LOOP_ARGS, LOOPS, REDUCES, REDUCES_EXTREME, REDUCES_NOT, REDUCES_ROUNDING, LoopKind, Reduces,
    SharedLoop, loop_at, loop_enter_fn, loop_init, loop_pass, loop_share, loop_stand_in, loops_init)
from pyblitz.kernels.map cimport loop_fn
from pyblitz.kernels.numbers cimport KeyKind
from pyblitz.kernels.sorts cimport (
    SORTS, SharedSort, argsort_stand_in, sort_at, sort_stand_in, sorts_force,
    sorts_init, table_argsort_fn)
from pyblitz.runtime.atomic cimport i64_load_relaxed

cnp.import_array()
cnp.import_ufunc()

cdef extern from "numpy/ufuncobject.h":
    # In full: NumPy 2.5's own declaration has Python's names of some.
    ctypedef struct PyUFuncObject:
        int ntypes
        loop_fn* functions
        const char* types
        int core_enabled
        int core_num_dim_ix
        int* core_num_dims
        int* core_dim_ixs
    int PyUFunc_ReplaceLoopBySignature(PyUFuncObject*, loop_fn, const int*, loop_fn*)

cdef extern from "numpy/arrayobject.h":
    ctypedef struct PyArray_ArrFuncs:
        sort_fn* sort
        table_argsort_fn* argsort
    PyArray_ArrFuncs* PyDataType_GetArrFuncs(const cnp.PyArray_Descr*)

loops_init(<loop_enter_fn>run_to_end)
sorts_init()

cdef object tables_lock = threading.RLock()
# Place in a table -> number of its stand-in, whether that is there now or not.  Of places, for
# several ufuncs may have one table.
cdef dict numbers = {}
cdef list takens = []           # of each number: (ufunc, signature, place)
cdef bint ufuncs_on = False, sums_on = False
cdef int64_t forced_from = 0

# By number, of those whose elements have one size.
cdef dict type_chars = {np.dtype(c).num: c for c in "?bBhHiIlLqQefdgFDGmM"}

# Whose binary loops, of three operands of one type, are associative and commutative, and
# give the same bits in any order: of which types.
INTEGERS = "?bBhHiIlLqQ"
EXACT = {
    # Not times: a sum on the way may be NaT, by chance of the order.
    "add": INTEGERS, "multiply": INTEGERS, "maximum": INTEGERS + "mM", "minimum": INTEGERS + "mM",
    "fmax": INTEGERS, "fmin": INTEGERS, "bitwise_and": INTEGERS, "bitwise_or": INTEGERS,
    "bitwise_xor": INTEGERS, "logical_and": "?", "logical_or": "?", "logical_xor": "?", "gcd": INTEGERS,
}
EXTREMES = ("maximum", "minimum", "fmax", "fmin")
ABSORBING = {"logical_or": 1, "logical_and": 0}
# BLAS shares these on its own.
BLAS = ("matmul", "vecdot", "matvec", "vecmat")


cdef Reduces reduces_by(str name, str types):
    if len(set(types)) != 1 or len(types) != 3:
        return REDUCES_NOT
    if types[0] in EXACT.get(name, ""):
        return REDUCES
    if name in EXTREMES and types[0] in "efd":
        return REDUCES_EXTREME
    return REDUCES_NOT


cdef bint rounds(str name, str types):
    return name in ("add", "multiply") and len(set(types)) == 1 and types[0] in "efdgFDG"


cdef LoopKind* kind_of(ufunc fn, str types, tuple signature) except NULL:
    cdef PyUFuncObject* core = <PyUFuncObject*>fn
    cdef LoopKind* kind = <LoopKind*>calloc(1, sizeof(LoopKind))
    cdef str name = fn.__name__
    cdef bint of_numpy = is_of(fn, "numpy")
    if kind == NULL:
        raise MemoryError("no memory for one more loop")
    kind.inputs = fn.nin
    kind.args = fn.nargs
    if core.core_enabled:
        kind.core_dims = core.core_num_dim_ix
        kind.core_counts = core.core_num_dims
        kind.core_which = core.core_dim_ixs
    for i, number in enumerate(signature):
        kind.sizes[i] = cnp.PyArray_DescrFromType(number).itemsize
    # By NumPy's `npy_gil_error`, or by SciPy's `errstate`.
    kind.raises = not of_numpy or core.core_enabled or (name == "power" and types[0] in INTEGERS)
    kind.reduces = reduces_by(name, types) if of_numpy else REDUCES_NOT
    kind.absorbing = ABSORBING.get(name, -1) if kind.reduces == REDUCES else -1
    return kind


cdef dict ufuncs_by_library():
    """{ufunc: (library, module)} of what has been imported of NumPy and of scipy.special."""
    found = {}
    for name, module in sorted(sys.modules.items()):
        library = name.split(".")[0]
        if library == "numpy" or name.split(".")[:2] == ["scipy", "special"]:
            for value in list(vars(module).values()) if module is not None else ():
                if isinstance(value, np.ufunc) and value not in found:
                    found[value] = (library, name)
    return found


cdef dict libraries = {}


cdef bint is_of(object fn, str library):
    return libraries.get(fn, ("", ""))[0] == library


cdef bint shareable(ufunc fn, str types):
    return ("O" not in types and fn.nargs <= LOOP_ARGS
            and not (fn.__name__ in BLAS and types[0] in "efdgFDG"))


cdef int take(ufunc fn, int64_t always_from) except -1:
    """Puts stand-ins in the places of the ufunc's loops; how many it has that were not taken."""
    cdef PyUFuncObject* table = <PyUFuncObject*>fn
    cdef int signature[LOOP_ARGS]
    cdef loop_fn old = NULL
    cdef loop_fn before = NULL
    cdef SharedLoop* l
    cdef LoopKind* kind
    cdef int i, j, k, missing = 0
    cdef set seen = set()
    for i in range(table.ntypes):
        numbers_of = tuple([<int>table.types[i * fn.nargs + j] for j in range(fn.nargs)])
        if numbers_of in seen:
            continue
        seen.add(numbers_of)
        types = "".join([type_chars.get(number, "O") for number in numbers_of])
        if not shareable(fn, types):
            continue
        for j in range(fn.nargs):
            signature[j] = numbers_of[j]
        old = table.functions[i]
        place = <size_t>&table.functions[i]
        k = numbers.get(place, -1)
        if k >= 0 and old == loop_stand_in(k):
            loop_share(loop_at(k), always_from)     # as it is
            continue
        if k >= 0 and loop_at(k).fn != old:
            # Somebody else's took its place, and may call our stand-in: that one stays theirs.
            loop_pass(loop_at(k))
            k = -1
        if k < 0:
            if len(takens) == LOOPS:
                missing += 1
                continue
            k = len(takens)
            kind = kind_of(fn, types, numbers_of)
            loop_init(loop_at(k), old, kind)
            numbers[place] = k
            takens.append((fn, numbers_of, place))
        l = loop_at(k)
        if rounds(fn.__name__, types) and is_of(fn, "numpy"):
            l.kind.reduces = REDUCES_ROUNDING if sums_on else REDUCES_NOT
        if PyUFunc_ReplaceLoopBySignature(<PyUFuncObject*>fn, loop_stand_in(k), signature, &before) != 0:
            missing += 1
            continue
        loop_share(l, always_from)
    return missing


cdef object give_back(int k):
    cdef int signature[LOOP_ARGS]
    cdef loop_fn before = NULL
    cdef SharedLoop* l = loop_at(k)
    cdef int j
    fn, numbers_of, _ = takens[k]
    loop_pass(l)
    for j, number in enumerate(numbers_of):
        signature[j] = number
    if PyUFunc_ReplaceLoopBySignature(<PyUFuncObject*>fn, l.fn, signature, &before) == 0:
        if before != loop_stand_in(k):
            # Another library has replaced ours since: its own stays, and calls ours.
            PyUFunc_ReplaceLoopBySignature(<PyUFuncObject*>fn, before, signature, &before)


cdef bint arrives():
    """Whether a call comes to the loop that was put in a table."""
    cdef SharedLoop* l
    cdef int64_t before
    for k, (fn, numbers_of, _) in enumerate(takens):
        if fn is np.add and numbers_of[0] == cnp.NPY_DOUBLE and numbers[takens[k][2]] == k:
            l = loop_at(k)
            before = i64_load_relaxed(&l.calls)
            loop_pass(l)
            loop_share(l, 1)
            np.add(np.ones(3), np.ones(3))
            loop_pass(l)
            loop_share(l, forced_from)
            return i64_load_relaxed(&l.calls) > before
    return False


# ---- sorts -------------------------------------------------------------------

# Places of the table, by what `kind` calls them; of each, whether it keeps ties in order.
cdef tuple KINDS = (("quicksort", 0, False), ("stable", 2, True))
cdef list sort_types = []       # of each number: (type's number, place in its table)
cdef bint sorts_on = False


cdef PyArray_ArrFuncs* table_of(object dtype):
    return PyDataType_GetArrFuncs(<const cnp.PyArray_Descr*>dtype)


cdef bint has_simd(object dtype, bint stable):
    """Whether NumPy sorts it with vector instructions, or by counting."""
    return dtype.itemsize == 1 or (not stable and dtype.kind in "iuf") or dtype.kind == "b"


cdef object make_sorts():
    """One stand-in for each type and kind; a type that has two names has two tables."""
    cdef SharedSort* s
    for char in "?bBhHiIlLqQefdmM":
        dtype = np.dtype(char)
        for _, place, stable in KINDS:
            if len(sort_types) == SORTS:
                raise RuntimeError("more sorts than stand-ins")
            s = sort_at(len(sort_types))
            s.sort = table_of(dtype).sort[place]
            s.argsort = table_of(dtype).argsort[place]
            s.kind = <KeyKind>key_kinds[dtype.kind]
            s.size = dtype.itemsize
            s.stable = stable
            s.simd = has_simd(dtype, stable)
            sort_types.append((dtype, place))


cdef object take_sorts(bint put):
    """Puts the stand-ins into the tables, or back what was there before."""
    cdef SharedSort* s
    cdef PyArray_ArrFuncs* table
    cdef int k
    if not sort_types:
        make_sorts()
    for k, (dtype, place) in enumerate(sort_types):
        s = sort_at(k)
        table = table_of(dtype)
        # What somebody else has put there since stays.
        if put:
            if table.sort[place] != sort_stand_in(k):
                s.sort = table.sort[place]
                table.sort[place] = sort_stand_in(k)
            if table.argsort[place] != argsort_stand_in(k):
                s.argsort = table.argsort[place]
                table.argsort[place] = argsort_stand_in(k)
        else:
            if table.sort[place] == sort_stand_in(k):
                table.sort[place] = s.sort
            if table.argsort[place] == argsort_stand_in(k):
                table.argsort[place] = s.argsort


cdef int64_t sort_calls():
    cdef int64_t calls = 0
    cdef int k
    for k in range(len(sort_types)):
        calls += i64_load_relaxed(&sort_at(k).calls)
    return calls


def sorts_arrive():
    """Whether a sort comes to what was put in the table."""
    cdef int64_t before = sort_calls()
    np.sort(np.arange(20_000.0))
    return sort_calls() > before


cdef dict by_name = {}      # of functions in NumPy's namespace: what stands there


def argsort_by_name(*args, **kwargs):
    # Which of equal items is first is an accident of NumPy's algorithm, unless it is asked for.
    kind = args[2] if len(args) > 2 else kwargs.get("kind")
    if kwargs.get("stable") or (type(kind) is str and kind in ("stable", "mergesort")):
        return par_argsort(*args, **kwargs)
    return numpys.argsort(*args, **kwargs)


cdef object take_names(bint put):
    """Puts functions that sort into NumPy's namespace, or back what was there before."""
    if put and not by_name:
        for name, given in vars(numpys).items():
            by_name[name] = InPlace(given, argsort_by_name) if name == "argsort" else shared(given)
    for name, ours in by_name.items():
        # What somebody else has put there stays.
        if vars(np)[name] is (ours.given if put else ours):
            setattr(np, name, ours if put else ours.given)


# ---- the switch --------------------------------------------------------------

def enable(*, ufuncs=True, sorts=True, sums=False):
    """NumPy itself on all cores: ``a + b``, ``np.exp(a)``, ``a.sort()``, and whatever calls them.

    From here on the calls of NumPy's ufuncs in the whole process, and those of ``scipy.special``
    where that is imported, are shared between threads where that pays, and so are sorts.
    Nothing else changes: values, warnings and exceptions are NumPy's.  Another call of
    `enable` changes what is on, and also takes what has been imported since.

    Parameters
    ----------
    ufuncs : bool, optional
        Calls of ufuncs, operators among them, and those reductions whose bits do not depend on
        the order of the elements: of integers and bools, ``min`` and ``max``.
    sorts : bool, optional
        ``np.sort``, ``a.sort()``, ``np.argsort``, ``np.unique`` and what else sorts numbers and times
        along an axis, each row for itself.  NumPy 2.5 keeps its sorts where they cannot be
        reached; there, functions with the names of ``np.sort``, ``np.argsort``, ``np.lexsort`` and
        ``np.unique`` are put into NumPy's namespace, and a RuntimeWarning says what they do not
        cover.
    sums : bool, optional
        Also sums and products of floats and complex numbers, whose last bits then are others
        than NumPy's; they do not depend on the number of threads.

    Raises
    ------
    ValueError
        When ``PYBLITZ_SHARE_FROM``, which is for tests, is not a number.
    MemoryError
        When there is no memory for what is kept of each loop.

    Warns
    -----
    RuntimeWarning
        When this NumPy does not let itself be changed in one of these ways; the others work.

    See Also
    --------
    disable : puts everything back.
    enabled : the same for a ``with`` block.
    stats : how many calls were shared.

    Notes
    -----
    Loops are replaced by ``PyUFunc_ReplaceLoopBySignature``, and what was there before is called by what
    replaces it, also if that is another library's.  ``PYBLITZ_ENABLE=1`` in the environment
    does the same when pyblitz is imported, and ``python -m pyblitz program.py`` runs a program
    under it.

    Examples
    --------
    >>> import numpy as np
    >>> import pyblitz as pb
    >>> pb.enable()
    >>> a = np.arange(1_000_000.0)
    >>> float(np.sqrt(a + a)[2])
    2.0
    >>> pb.disable()
    """
    for message in switch(ufuncs, sorts, sums):
        warnings.warn(message, RuntimeWarning, stacklevel=1)    # compiled functions have no frame


cdef list switch(object ufuncs, object sorts, object sums):
    """What this NumPy does not let be changed, in words."""
    global ufuncs_on, sums_on, sorts_on, forced_from
    cdef list told = []
    with tables_lock:
        sums_on = bool(sums)
        missing = 0
        if forced_from != share_from():
            release_ufuncs()
            forced_from = share_from()
        if ufuncs:
            libraries.update(ufuncs_by_library())
            for fn in libraries:
                missing += take(fn, forced_from)
            ufuncs_on = True
            if not arrives():
                release_ufuncs()
                told.append(f"pyblitz.enable: NumPy {np.__version__} does not call the loops that are "
                            "put into its ufuncs' tables: ufuncs stay as they were")
            elif missing:
                told.append(f"pyblitz.enable: {missing} loops stay as they were: there is room for {LOOPS}")
        else:
            release_ufuncs()
        take_names(False)
        take_sorts(bool(sorts))
        sorts_force(forced_from != 0)
        sorts_on = bool(sorts)
        if sorts_on and not sorts_arrive():
            take_sorts(False)
            take_names(True)
            told.append(f"pyblitz.enable: NumPy {np.__version__} keeps its sorts where they cannot be "
                        "reached: np.sort, np.lexsort, np.unique and np.argsort(kind='stable') are "
                        "shared by these names, a.sort() and sorts within libraries are not")
    return told


cdef object release_ufuncs():
    global ufuncs_on
    if ufuncs_on:
        ufuncs_on = False
        for k in range(len(takens)):
            if numbers[takens[k][2]] == k:
                give_back(k)


def disable():
    """Puts back all that :func:`enable` has replaced, in the whole process.

    Examples
    --------
    >>> import pyblitz as pb
    >>> pb.disable()    # harmless where nothing is enabled
    """
    global sorts_on
    with tables_lock:
        release_ufuncs()
        take_names(False)
        if sorts_on:
            take_sorts(False)
            sorts_on = False


class enabled(contextlib.ContextDecorator):
    """:func:`enable` for a ``with`` block, then what was before.

    It is the process that is changed, not the thread: what others compute meanwhile is shared,
    too.

    Parameters
    ----------
    ufuncs, sorts, sums : bool, optional
        As for :func:`enable`.

    Raises
    ------
    ValueError, MemoryError
        As by :func:`enable`.

    Examples
    --------
    >>> import numpy as np
    >>> import pyblitz as pb
    >>> a = np.arange(1_000_000)
    >>> with pb.enabled():
    ...     total = int((a * a)[-1])
    >>> total
    999998000001
    """

    def __init__(self, *, ufuncs=True, sorts=True, sums=False):
        self._options = {"ufuncs": ufuncs, "sorts": sorts, "sums": sums}
        self._before = []

    def __enter__(self):
        with tables_lock:
            self._before.append((ufuncs_on, sorts_on, sums_on))
            try:
                enable(**self._options)
            except BaseException:
                self.__exit__()     # a warning that is an error
                raise
        return self

    def __exit__(self, *exc):
        ufuncs, sorts, sums = self._before.pop()
        if ufuncs or sorts:
            switch(ufuncs, sorts, sums)     # which has warned before
        else:
            disable()


def taken():
    """{ufunc's name: (calls that were large enough to look at, calls that other threads took
    part in)}."""
    cdef SharedLoop* l
    found = {}
    for k in range(len(takens)):
        l = loop_at(k)
        calls, helped = i64_load_relaxed(&l.calls), i64_load_relaxed(&l.shared)
        if calls:
            name = takens[k][0].__name__
            before = found.get(name, (0, 0))
            found[name] = (before[0] + calls, before[1] + helped)
    calls = helped = 0
    for k in range(len(sort_types)):
        calls += i64_load_relaxed(&sort_at(k).calls)
        helped += i64_load_relaxed(&sort_at(k).shared)
    if calls:
        found["sort"] = calls, helped
    return found


def replaced():
    """How many loops are replaced, of how many ufuncs; and how many sorts, in tables or by name."""
    now = [takens[k][0] for k in range(len(takens)) if ufuncs_on and numbers[takens[k][2]] == k]
    sorts = sum(vars(np)[name] is ours for name, ours in by_name.items())
    for k, (dtype, place) in enumerate(sort_types):
        sorts += table_of(dtype).sort[<int>place] == sort_stand_in(k)
        sorts += table_of(dtype).argsort[<int>place] == argsort_stand_in(k)
    return len(now), len(set(now)), sorts
