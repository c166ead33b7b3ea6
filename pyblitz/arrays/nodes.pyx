# cython: wraparound=True, boundscheck=True
"""Nodes: see nodes.pxd."""
import dis
from types import CellType, FunctionType

import numpy as np

cimport cython
cimport numpy as cnp
from cpython.function cimport PyFunction_GetClosure, PyFunction_GetCode, PyFunction_GetGlobals
from cpython.long cimport PyLong_AsLong
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_New
from libc.stdint cimport int64_t
from numpy cimport ndarray, number, ufunc

from pyblitz.arrays.common cimport (
    LATELY_PLACES, Resolved, keep_lately, lately_place, resolve, resolved_of)
from pyblitz.arrays.compiled cimport CompiledKernel
from pyblitz.arrays.front cimport member

cnp.import_array()


@cython.freelist(16)
cdef class Node:
    """One value of an expression."""


cdef class Domain:
    """A mask, and the elements that it keeps."""


cdef Node new_node(NodeKind kind, object what, tuple args, tuple shape, object dtype,
                   Domain domain):
    cdef Node n = Node.__new__(Node)
    n.kind = kind
    n.what = what
    n.args = args
    n.shape = shape
    n.dtype = dtype
    n.domain = domain
    n.depth = 0
    for arg in args:
        n.depth = max(n.depth, (<Node>arg).depth + 1)
    return n


cdef Node operation_node(NodeKind kind, object what, tuple args, object dtype):
    return new_node(kind, what, args, common_shape(args), dtype, common_domain(args))


cdef inline bint is_number(object x) noexcept:
    """Of Python's, that takes the dtype of what it meets."""
    return type(x) is int or type(x) is float or type(x) is complex


cdef Node node_of(object x):
    """Of an array or a number."""
    cdef ndarray a
    if is_number(x) or type(x) is bool:
        return new_node(NODE_CONSTANT, x, (), (), None if type(x) is not bool else np.dtype(bool), None)
    if cnp.PyArray_CheckExact(x):
        a = x
    else:
        a = np.asarray(x) if isinstance(x, np.generic) else member(x, "operand", "par_iter")
    return new_node(NODE_CONSTANT if cnp.PyArray_NDIM(a) == 0 else NODE_INPUT, a, (),
                    shape_of(a), <object>cnp.PyArray_DESCR(a), None)


cdef tuple shape_of(ndarray a):
    cdef tuple shape = PyTuple_New(cnp.PyArray_NDIM(a))
    cdef int i
    for i in range(cnp.PyArray_NDIM(a)):
        set_new(shape, i, cnp.PyArray_DIM(a, i))
    return shape


cdef tuple common_shape(tuple nodes):
    """Of nodes of one domain; None in a filtered one."""
    cdef Node n
    cdef tuple shape = ()
    for node in nodes:
        n = <Node>node
        if n.kind == NODE_CONSTANT:
            continue
        if n.domain is not None:
            return None
        if not same_shape(n.shape, shape):
            shape = np.broadcast_shapes(shape, n.shape) if shape else n.shape
    return shape


cdef bint same_shape(tuple a, tuple b) except -1:
    cdef Py_ssize_t i
    if a is b:
        return True
    if len(a) != len(b):
        return False
    for i in range(len(a)):
        if <int64_t>a[i] != <int64_t>b[i]:
            return False
    return True


cdef Domain common_domain(tuple nodes):
    cdef Node n
    cdef Domain found = None
    cdef bint first = True
    for node in nodes:
        n = <Node>node
        if n.kind == NODE_CONSTANT:
            continue
        if not first and n.domain is not found:
            raise other_filter()
        found = n.domain
        first = False
    return found


cdef object other_filter():
    return ValueError("elements that were filtered can only be combined with numbers and with "
                      "others of the same filter")


cdef list depends(Node node):
    """All nodes that one is made of, itself last."""
    cdef list order = []
    visit(node, set(), order)
    return order


cdef int visit(Node node, set seen, list order) except -1:
    # Not by recursion: a loop may have written an expression of any depth.
    cdef Node n
    cdef list stack = [node]
    while stack:
        n = stack[-1]
        if n in seen:
            stack.pop()
            continue
        waiting = [arg for arg in reversed(n.args) if arg not in seen]
        if n.kind == NODE_KEPT and n.domain.mask not in seen:
            waiting.append(n.domain.mask)
        if waiting:
            stack += waiting
        else:
            seen.add(n)
            order.append(stack.pop())
    return 0


cdef object ufunc_node(ufunc u, list nodes, dict options):
    """What ``u(*nodes, **options)`` is: a node, or a tuple of them; None: no program can do it."""
    cdef Resolved r = resolved_for(u, nodes, options)
    cdef tuple inputs
    cdef Node n
    cdef int i
    if r is None or r.dtypes is None or not r.numeric:
        return None
    inputs = PyTuple_New(u.nin)
    for i in range(u.nin):
        n = <Node>nodes[i]
        if n.dtype is r.dtypes[i] and n.kind != NODE_CONSTANT:
            set_new(inputs, i, n)
            continue
        if (<cnp.dtype>r.dtypes[i]).kind == b"m" and (n.dtype is None or n.dtype.kind != "m"):
            # NumPy 2.5 warns of numbers that are to be times.
            u(*[(<Node>x).what if (<Node>x).kind == NODE_CONSTANT else np.empty(0, (<Node>x).dtype)
                for x in nodes])
        n = converted(n, r.dtypes[i])
        if n is None:
            return None
        set_new(inputs, i, n)
    if u.nout == 1:
        return call_node(u, inputs, r, 0)
    return tuple([call_node(u, inputs, r, i) for i in range(u.nout)])


cdef Node simple_node(ufunc u, object a, object b):
    cdef Resolved r
    cdef Node x, y, n
    if u.nout != 1 or u.nin > 2 or (u.nin == 1) != (b is None):
        return None
    r = resolved_of(u, given_for(a), given_for(b))
    if r is None or r.dtypes is None or not r.numeric:
        return None
    x = n = simple_operand(a, r.dtypes[0])
    if x is None:
        return None
    if u.nin == 1:
        return loop_node(u, (x,), x.shape, r, 0, x.domain)
    y = simple_operand(b, r.dtypes[1])
    if y is None:
        return None
    if x.kind == NODE_CONSTANT:
        n = y
    elif y.kind != NODE_CONSTANT and (x.domain is not y.domain or not same_shape(x.shape, y.shape)):
        return None
    return loop_node(u, (x, y), n.shape, r, 0, n.domain)


cdef object given_for(object x):
    """What `resolve` is given for an operand; None: it is nothing simple."""
    if type(x) is Node:
        return type((<Node>x).what) if (<Node>x).dtype is None else (<Node>x).dtype
    if is_number(x):
        return type(x)
    if isinstance(x, number):
        return cnp.PyArray_DescrFromScalar(x)
    return <object>cnp.PyArray_DESCR(<ndarray>x) if cnp.PyArray_CheckExact(x) else None


cdef Node simple_operand(object x, cnp.dtype want):
    cdef Node n
    if is_number(x) or (isinstance(x, number) and cnp.PyArray_DescrFromScalar(x) is want):
        return number_node(x, want) if want.kind != b"m" else None
    n = x if type(x) is Node else node_of(x)
    # An array of no axis may be written before the chain ends: `converted` copies what is in it now.
    if n.kind == NODE_CONSTANT or n.dtype is want:
        return n if n.kind != NODE_CONSTANT else None
    # NumPy may warn of what becomes a time.
    return converted(n, want) if want.kind != b"m" else None


cdef Resolved resolved_for(ufunc u, list nodes, dict options):
    cdef tuple signature = None
    cdef str casting = "same_kind"
    cdef tuple given
    cdef int i
    if len(nodes) != u.nin:
        return None
    if options:
        if set(options) - {"dtype", "casting"}:
            return None
        casting = options.get("casting", casting)
        if options.get("dtype") is not None:
            signature = (None,) * u.nin + (np.dtype(options["dtype"]),) * u.nout
    given = PyTuple_New(u.nargs)
    for i in range(u.nin):
        set_new(given, i, given_for(nodes[i]))
    for i in range(u.nin, u.nargs):
        set_new(given, i, None)
    return resolve(u, given, signature, casting, False)


cdef Node converted(Node n, cnp.dtype want):
    """An operand as what the loop takes; None: NumPy says why not."""
    cdef ndarray value = None
    if n.kind != NODE_CONSTANT:
        return n if n.dtype == want else cast(n, want)
    if n.dtype is not None and type(n.what) is not bool:
        value = n.what.astype(want)
    elif want.kind == b"m":
        value = np.asarray(n.what, want)
    else:
        return number_node(n.what, want)
    return new_node(NODE_CONSTANT, value, (), (), want, None)


# The numbers that were converted last: (the number, the dtype, the node).
cdef list last_numbers = [None] * LATELY_PLACES


cdef Node number_node(object x, cnp.dtype want):
    """Of a number of Python's, or of NumPy's of this dtype, for a loop of it; None: it is too large
    for that."""
    cdef bint fits = True
    cdef ndarray value
    cdef Node n = number_lately(x, want)
    if n is not None:
        return n
    value = cnp.PyArray_EMPTY(0, NULL, want.type_num, 0)
    try:
        if want.type_num == cnp.NPY_BOOL and type(x) is int:
            PyLong_AsLong(x)        # so NumPy takes one for logical loops: what has no C type is refused
        cnp.PyArray_SETITEM(value, <char*>cnp.PyArray_DATA(value), x)
    except OverflowError:
        fits = False
    if not fits:
        return None
    n = new_node(NODE_CONSTANT, value, (), (), want, None)
    if is_plain(x, want):
        keep_lately(last_numbers, lately_place(<void*>x, <void*>want, NULL), (x, want, n))
    return n


cdef Node number_lately(object x, object want):
    """The same, if it was asked for lately; or None."""
    cdef Py_ssize_t i, place = lately_place(<void*>x, <void*>want, NULL)
    cdef tuple made
    for i in range(place, place + 2):
        made = last_numbers[i]
        if made is not None and made[0] is x and made[1] is want:
            return made[2]
    return None


cdef bint is_plain(object x, cnp.dtype want) except -1:
    """Whether it is a number of a kind that NumPy converts to this dtype without a warning."""
    # NumPy may warn each time of an overflow or underflow in the conversion of Python's, so such numbers
    # are not kept.  Those within the normal numbers of the type meet none: of half precision, of which
    # 65504 is the greatest, or of any other.  Nor is what a subclass of NumPy's types may hold.
    if not is_number(x):
        kind = type(x)
        return <void*>kind == <void*>want.typeobj
    if type(x) is complex:
        return False
    return x == 0 or (1e-4 < abs(x) < 65504 if want.itemsize < 4 else 1e-30 < abs(x) < 1e30)


cdef Node call_node(ufunc u, tuple inputs, Resolved r, int output):
    return loop_node(u, inputs, common_shape(inputs), r, output, common_domain(inputs))


cdef Node loop_node(ufunc u, tuple inputs, tuple shape, Resolved r, int output, Domain domain):
    cdef Node n = new_node(NODE_CALL, u, inputs, shape, r.dtypes[u.nin + output], domain)
    n.resolved = r
    n.output = output
    return n


cdef Node call_where(Node mask, Node x, Node y):
    dtype = x.dtype
    if dtype is None or dtype is not y.dtype or not dtype.isnative:
        dtype = np.result_type(*[n.what if n.dtype is None else n.dtype for n in (x, y)])
    # NumPy keeps the byte order of a time beside a number of Python's.
    if dtype.kind not in "biufcmM" or not dtype.isnative:
        raise TypeError(f"the result has dtype {dtype}; lazy arrays are of numbers or times")
    return operation_node(NODE_WHERE, np.where, (mask, of_type(x, dtype), of_type(y, dtype)), dtype)


cdef Node of_type(Node n, object dtype):
    if n.dtype is None:
        # A number of Python's, which the dtype may be too small for.
        return node_of(np.asarray(n.what, dtype))
    # Of no axis: what is in it now.
    return n if n.dtype == dtype and n.kind != NODE_CONSTANT else cast(n, dtype)


cdef Node call_kernel(object kernel, tuple args):
    cdef CompiledKernel k = kernel
    if len(args) != k.kernel.inputs:
        raise TypeError(f"fn: the kernel {k.signature!r} takes {k.kernel.inputs} arrays, not {len(args)}")
    for node in args:
        if (<Node>node).dtype != k.dtype:
            raise TypeError(f"fn: the kernel {k.signature!r} takes {k.dtype}, not {(<Node>node).dtype}")
    return operation_node(NODE_KERNEL, k, args, k.dtype)


cdef Node cast(Node node, object dtype):
    if node.kind == NODE_CONSTANT:
        return node_of(np.asarray(node.what).astype(dtype))
    return new_node(NODE_CAST, None, (node,), node.shape,
                    dtype if isinstance(dtype, cnp.dtype) else np.dtype(dtype), node.domain)


cdef Node side_by_side(Node node):
    return new_node(NODE_COPY, None, (node,), node.shape, node.dtype, node.domain)


cdef Node index_node(object start, object step, int64_t n):
    return new_node(NODE_INDEX, (start, step), (), (n,), np.dtype(np.int64), None)


cdef ndarray items_at(Node node):
    if node.kind == NODE_INPUT:
        return node.what
    start, step = node.what
    return start + step * np.arange(node.shape[0])


cdef Domain keep(Node mask):
    cdef Domain f = Domain()
    f.mask = mask
    f.depth = 1 if mask.domain is None else mask.domain.depth + 1
    return f


cdef Node kept_node(Node node, Domain domain):
    if node.kind == NODE_CONSTANT:
        return node
    common_domain((node, domain.mask))
    cdef Node n = new_node(NODE_KEPT, None, (node,), None, node.dtype, domain)
    n.depth = max(n.depth, domain.mask.depth + 1)
    return n


cdef Node again(Node node, tuple args, Domain domain):
    """The same of other nodes."""
    cdef Node n = new_node(node.kind, node.what, args, None, node.dtype, domain)
    n.shape = common_shape(args) if domain is None else None
    n.resolved = node.resolved
    n.output = node.output
    return n


cdef Node sliced(Node node, object how):
    """The expression of ``how(a)`` for each of its arrays: a slice along the first axis,
    or a view of another shape.  Element by element, that is the same."""
    cdef list leaves = [], steps = [], made
    for part in depends(node):
        if (<Node>part).kind == NODE_INPUT or (<Node>part).kind == NODE_INDEX:
            leaves.append(part)
        elif (<Node>part).kind != NODE_CONSTANT:
            steps.append(part)
    made = [how(leaf) for leaf in leaves]
    make_of_others(steps, places_in(steps, leaves), made, None)
    return made[-1] if len(made) > 0 else node


cdef list places_in(list steps, list leaves):
    """For each step a tuple: where its arguments are among the leaves and the steps before it; -1: they
    stay.  steps: each after those that it is made of."""
    cdef dict at = {leaf: i for i, leaf in enumerate(leaves)}
    cdef list places = []
    for step in steps:
        places.append(tuple([at.get(arg, -1) for arg in (<Node>step).args]))
        at[step] = len(at)
    return places


cdef int make_of_others(list steps, list places, list made, Domain domain) except -1:
    """Makes the same steps of other nodes, and appends them.  made: the leaves."""
    cdef tuple args, others, where
    cdef Py_ssize_t i, k, at
    for k in range(len(steps)):
        args, where = (<Node>steps[k]).args, places[k]
        others = PyTuple_New(len(args))
        for i in range(len(args)):
            at = where[i]
            set_new(others, i, args[i] if at < 0 else made[at])
        made.append(again(steps[k], others, domain))
    return 0


# ---- what functions stand for ----------------------------------------------------
#
# To call a function that is asked for its expression takes longer than to compute that of a few elements.
# One that only applies operators to its argument and to numbers stands for the same each time; and for
# other numbers of the same types for the same of these, unless it has a power.

# Instructions that do nothing but that; another one's effect may be another each time.
cdef set operators = {
    code for name, code in dis.opmap.items() if name.startswith(("BINARY_", "COMPARE_OP", "INPLACE_", "UNARY_"))}
cdef set harmless = operators | {
    code for name, code in dis.opmap.items() if name.startswith((
        "CACHE", "COPY_FREE_VARS", "EXTENDED_ARG", "LOAD_CONST", "LOAD_DEREF", "LOAD_FAST", "LOAD_GLOBAL",
        "LOAD_SMALL_INT", "NOP", "RESUME", "RETURN_CONST", "RETURN_VALUE", "STORE_FAST"))}

cdef set powers = {np.power, np.square, np.positive, np.sqrt, np.reciprocal}
cdef object small_int = dis.opmap.get("LOAD_SMALL_INT")

cdef enum:
    # Of longer expressions the call is a small part.
    MOST_STEPS = 16
    # Instead of the number of operators.
    NOT_ONLY = -1
    UNKNOWN = -2

# Those that were asked for last.
cdef list last_expressions = [None] * LATELY_PLACES


cdef class Expression:
    """What a function stands for."""


cdef Expression expression_of(object fn, Node x):
    cdef Expression e, made
    cdef Py_ssize_t i, place
    cdef list numbers
    cdef bint exact = False
    code = <object>PyFunction_GetCode(fn)
    numbers = numbers_of(fn, code)
    if numbers is None:
        return None
    place = lately_place(<void*>code, <void*>x.dtype, NULL)
    for i in range(place, place + 2):
        e = last_expressions[i]
        if e is None or e.code is not code or e.dtype is not x.dtype:
            continue
        if are_same(numbers, e.numbers):
            return e if e.steps is not None or applies_operators(e) else None
        if e.operations == NOT_ONLY:
            return None
        if not e.exact and are_alike(numbers, e):
            if e.steps is None and not applies_operators(e):
                return None
            made = new_expression(code, x.dtype, numbers, e.operations)
            made.steps, made.places, made.sources, made.dtypes = e.steps, e.places, e.sources, e.dtypes
            return made
        exact = exact or e.exact
    if x.kind != NODE_CONSTANT and all([is_plain(v, x.dtype) for v in numbers]):
        # Most functions are seen but once.
        made = new_expression(code, x.dtype, numbers, UNKNOWN)
        made.exact = exact
        keep_lately(last_expressions, place, made)
    return None


cdef Expression new_expression(object code, object dtype, list numbers, Py_ssize_t operations):
    cdef Expression e = Expression()
    e.code, e.dtype, e.numbers, e.operations = code, dtype, numbers, operations
    return e


cdef bint are_alike(list numbers, Expression e) except -1:
    """Whether these are of the types of its numbers, and as plain."""
    cdef Py_ssize_t i
    for i in range(len(numbers)):
        if numbers[i] is not e.numbers[i] and (
                type(numbers[i]) is not type(e.numbers[i]) or not is_plain(numbers[i], e.dtype)):
            return False
    return True


cdef bint applies_operators(Expression e) except -1:
    """Whether the function does nothing else."""
    cdef cnp.dtype dtype = e.dtype
    if e.operations == UNKNOWN:
        # NumPy 2.5 warns each time of numbers that are to be times.
        e.operations = NOT_ONLY if dtype.kind in b"mM" or not dtype.isnative else operations_of(e.code, dtype)
    return e.operations != NOT_ONLY


cdef list numbers_of(object fn, object code):
    """What its cells hold and its global names mean; None: a cell is empty, or Python does not look names up
    in a dict."""
    cdef list numbers = []
    cdef tuple names = code.co_names
    cdef PyObject* closure = PyFunction_GetClosure(fn)
    cdef PyObject* named = PyFunction_GetGlobals(fn)
    if closure != NULL:
        try:
            for cell in <tuple>closure:
                numbers.append(cell.cell_contents)
        except ValueError:
            numbers = None
    if numbers is None or len(names) == 0:
        return numbers
    if type(<object>named) is not dict:
        return None
    for name in names:
        # None, of a name that is built in, is no number, either.
        numbers.append((<dict>named).get(name))
    return numbers


cdef bint are_same(list a, list b) noexcept:
    cdef Py_ssize_t i
    for i in range(len(a)):
        if a[i] is not b[i]:
            return False
    return True


cdef Py_ssize_t operations_of(object code, cnp.dtype dtype) except -3:
    """How many operators it applies; NOT_ONLY: it may do something else, too."""
    cdef Py_ssize_t operations = 0
    # Of another argument function_of would have no default.
    if code.co_argcount + code.co_kwonlyargcount != 1:
        return NOT_ONLY
    for x in code.co_consts:
        # A docstring is one of them.
        if x is not None and type(x) is not str and not is_plain(x, dtype):
            return NOT_ONLY
    for instruction in code.co_code[::2]:
        if instruction not in harmless:
            return NOT_ONLY
        operations += instruction in operators
    return operations


cdef object function_of(Expression e):
    cdef Py_ssize_t cells = len(e.code.co_freevars)
    named = dict(zip(e.code.co_names, e.numbers[cells:]))
    return FunctionType(e.code, named, None, None, tuple([CellType(v) for v in e.numbers[:cells]]))


cdef int remember(Expression e, Node x, Node result) except -1:
    cdef Expression found
    cdef list steps = [], leaves = [x], made
    cdef Py_ssize_t calls = 0
    visit(result, {x}, steps)
    constants = [n for n in steps if (<Node>n).kind == NODE_CONSTANT]
    steps = [n for n in steps if (<Node>n).kind != NODE_CONSTANT]
    for n in steps:
        if (<Node>n).kind != NODE_CALL and (<Node>n).kind != NODE_CAST:
            return 0
        calls += (<Node>n).kind == NODE_CALL
    # Operators that made no step had numbers only, and may have warned.
    if calls != e.operations or len(steps) > MOST_STEPS:
        return 0
    # Another one, for another thread may look at this one.
    found = new_expression(e.code, e.dtype, e.numbers, e.operations)
    found.sources = sources_of(e, steps, constants)
    found.exact = found.sources is None
    if not found.exact:
        leaves += [c for c, source in zip(constants, found.sources) if source >= 0]
        found.sources = [source for source in found.sources if source >= 0]
    found.places = places_in(steps, leaves)
    # Of an argument that holds no array.
    made = [new_node(NODE_INPUT, None, (), (0,), x.dtype, None), *leaves[1:]]
    make_of_others(steps, found.places, made, None)
    found.steps = made[len(leaves):]
    found.dtypes = [(<Node>c).dtype for c in leaves[1:]]
    return keep_lately(last_expressions, lately_place(<void*>e.code, <void*>e.dtype, NULL), found)


cdef list sources_of(Expression e, list steps, list constants):
    """For each of them, which of the function's numbers it is; -1: none, but one of its code.  None: that is
    not sure, or the value of a number has a say in what the steps are."""
    cdef list sources = [], code = list(e.code.co_code)
    # An exponent says which of them it is.
    if not powers.isdisjoint([(<Node>step).what for step in steps]):
        return None
    # Since Python 3.14 some are in the instructions.
    given = [*e.code.co_consts, *[v for op, v in zip(code[::2], code[1::2]) if op == small_int]]
    for c in constants:
        are = [i for i, v in enumerate(e.numbers) if number_lately(v, (<Node>c).dtype) is c]
        fixed = [v for v in given if number_lately(v, (<Node>c).dtype) is c]
        if len(are) + (len(fixed) > 0) != 1:
            return None
        sources.append(are[0] if are else -1)
    # Each is in sight: nothing else depends on one.
    return sources if {*sources} >= {*range(len(e.numbers))} else None


cdef Node result_of(Expression e, Node x):
    cdef list made = [x]
    cdef Node n
    cdef Py_ssize_t i
    if not e.exact:
        for i in range(len(e.sources)):
            n = number_node(e.numbers[<Py_ssize_t>e.sources[i]], e.dtypes[i])
            if n is None:
                return None
            made.append(n)
    make_of_others(e.steps, e.places, made, x.domain)
    return made[-1] if len(e.steps) > 0 else x
