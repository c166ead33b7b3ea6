# cython: wraparound=True, boundscheck=True
"""What expressions come to: see evaluate.pxd."""
import numpy as np

cimport numpy as cnp
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, intptr_t, uint8_t
from libc.string cimport memcpy
from numpy cimport ndarray, ufunc

from pyblitz.host.config import share_from
from pyblitz.host.interpreter cimport check
from pyblitz.arrays.common cimport (
    is_half, may_overlap, number_cast, numpys, report_flags, run, run_fn, same_memory)
from pyblitz.arrays.copy cimport BRIEF_ITEMS, few_selected, select_items
from pyblitz.arrays.front cimport DEAR_NS, check_out, overlaps_itself, pays
from pyblitz.arrays.memory cimport empty, empty_of
from pyblitz.arrays.nodes cimport (
    NODE_CALL, NODE_CAST, NODE_CONSTANT, NODE_COPY, NODE_INDEX, NODE_INPUT, NODE_KEPT, NODE_WHERE, Domain, Node,
    again, ufunc_node, call_where, common_shape, depends, items_at, keep, kept_node, node_of, same_shape, sliced,
    visit)
from pyblitz.arrays.program cimport CONSTANT, MAX_STEPS, REGISTER, Program, one_program
from pyblitz.kernels.collect cimport (
    Collect, collect_begin, collect_free, collect_place, collect_run, collect_write)
from pyblitz.kernels.find cimport (
    FIND_ZERO, CountNonzero, Find, FindWhich, Items, count_nonzero_run, find_run)
from pyblitz.kernels.map cimport (
    MAP_DIMS, MAP_OPERANDS, NEAR_DOUBLES, STEP_ARGS, STEP_LOOP, Map, Step, map_begin, map_run, map_walk)
from pyblitz.kernels.simd.levels cimport simd
from pyblitz.kernels.where cimport where_loop
from pyblitz.runtime.atomic cimport i64_load_relaxed, u32_load_relaxed
from pyblitz.runtime.pool cimport Worker

cnp.import_array()

cdef object equal = np.equal


# ---- operations -------------------------------------------------------------

cdef object apply(ufunc u, list args, dict options):
    """What ``u(*args, **options)`` is, not computed yet where that is possible: a node, or a
    tuple of them."""
    if are_constant(args):
        return as_nodes(u(*[(<Node>x).what for x in args], **options))
    made = ufunc_node(u, args, options)
    return at_once(u, args, options) if made is None else made


cdef bint are_constant(list args) except -1:
    """Makes nodes of them all; whether they are numbers."""
    cdef bint constant = True
    cdef int i
    for i in range(len(args)):
        if type(args[i]) is not Node:
            args[i] = node_of(args[i])
        constant = constant and (<Node>args[i]).kind == NODE_CONSTANT
    return constant


cdef Node apply_where(list args):
    """The same of np.where; see call_where."""
    are_constant(args)
    cdef Node mask = args[0]
    if mask.dtype is not None and mask.dtype.kind not in "biufcm":
        raise TypeError(f"np.where: whether {mask.dtype} is true is NumPy's to say")
    if mask.kind == NODE_CONSTANT:
        mask = node_of(np.array(mask.what).astype(bool))
    elif mask.dtype != np.bool_:
        mask = apply(np.not_equal, [mask, np.zeros((), mask.dtype)], {})
    return call_where(mask, args[1], args[2])


cdef object as_nodes(object result):
    for x in result if isinstance(result, tuple) else (result,):
        if np.asarray(x).dtype.kind not in "biufcmM":
            raise TypeError(f"the result has dtype {np.asarray(x).dtype}; lazy arrays are of numbers or times")
    return tuple([node_of(x) for x in result]) if isinstance(result, tuple) else node_of(result)


cdef object at_once(ufunc u, list nodes, dict options):
    """By NumPy, on arrays: what no program can do, and what NumPy refuses."""
    # First without elements, so that a refusal costs nothing.
    if u.signature is None:
        u(*[(<Node>n).what if (<Node>n).kind == NODE_CONSTANT else np.empty(0, (<Node>n).dtype)
            for n in nodes], **options)
    arrays = [(<Node>n).what if (<Node>n).kind == NODE_CONSTANT else array_of(n) for n in nodes]
    return as_nodes(u(*arrays, **options))


# ---- programs ---------------------------------------------------------------

cdef Program program_of(list nodes, list outs, bint in_order):
    """in_order: positions count, so the axes stay as they are."""
    cdef Program p
    cdef Node n
    cdef tuple shape
    for node in nodes:
        n = node
        if n.shape is not None and len(n.shape) > MAP_DIMS:
            shape = common_shape(tuple(nodes))
            nodes = [one_row(each, shape) for each in nodes]
            outs = None if outs is None else [out.reshape(-1) for out in outs]
            break
    p = one_program(nodes, outs, in_order)
    if p is not None or len(nodes) > 1:
        return p
    nodes = cut(nodes, False)
    while True:
        p = one_program(nodes, outs, in_order)
        if p is not None:
            return p
        n = nodes[0]
        if n.domain is None:
            raise ValueError(f"the expression has more than {STEP_ARGS - 1} arrays in one step")
        nodes = cut(nodes, True)


cdef Node one_row(Node node, tuple shape):
    """The same, broadcast to a shape, in C order and one dimension."""

    def how(part):
        return node_of(np.broadcast_to(items_at(part), shape).reshape(-1))

    return sliced(node, how)


cdef list cut(list nodes, bint whole):
    """The same values as smaller expressions: parts of them are computed now, into arrays.
    whole: and so is what a filter keeps."""
    cdef Node n, made
    cdef Domain domain
    cdef list order = []
    cdef set seen = set()
    cdef dict now = {}      # what each node is now
    cdef dict domains = {}
    cdef dict users = {}    # how many still need it
    for node in nodes:
        visit(node, seen, order)
        users[node] = 1
    for node in order:
        for arg in needs(node):
            users[arg] = users.get(arg, 0) + 1
    for node in order:
        n = node
        if not n.args:
            now[n] = n
            continue
        domain = n.domain
        if domain is not None:
            if n.kind == NODE_KEPT and domain not in domains:
                domains[domain] = keep(now[domain.mask])
            domain = None if whole and domain.depth == 1 else domains[domain]
        if n.kind == NODE_KEPT:
            made = kept_node(now[n.args[0]], domains[n.domain])
            if domain is None:
                made = node_of(collect_kept([made], None)[0])
        else:
            made = remade(n, domain, now)
        now[n] = made
        # What nobody needs any more is freed.
        for arg in needs(n):
            users[arg] -= 1
            if users[arg] == 0:
                del now[arg]
    return [now[node] for node in nodes]


cdef tuple needs(Node n):
    return n.args + (n.domain.mask,) if n.kind == NODE_KEPT else n.args


cdef Node remade(Node n, Domain domain, dict now):
    """Of what its arguments are now; if that is large, they are computed first."""
    cdef Node made = again(n, tuple([now[arg] for arg in n.args]), domain)
    if domain is None and is_large(made):
        for arg in n.args:
            if (<Node>now[arg]).args:
                now[arg] = node_of(array_of(now[arg]))
        made = again(n, tuple([now[arg] for arg in n.args]), None)
    return made


cdef bint is_large(Node node) except -1:
    """So that a program can do it, and not much more."""
    cdef Node n
    cdef int steps = 0, arrays = 0
    for part in depends(node):
        n = part
        steps += n.args != ()
        arrays += n.kind == NODE_INPUT
    return steps > MAX_STEPS // 4 or arrays > MAP_OPERANDS // 2


# ---- running ----------------------------------------------------------------

cdef struct Whole:
    Map* map
    int64_t grain


cdef int run_whole(Worker* w, void* ctx) noexcept nogil:
    return map_run(w, (<Whole*>ctx).map, (<Whole*>ctx).grain)


cdef int run_only(Program p) except -1:
    """A program that leaves its values where they belong."""
    cdef Whole whole
    if p.m.size > 0:
        whole.map = &p.m
        whole.grain = p.grain()
        run(run_whole, &whole, "the expression")
    p.end()
    return 0


# ---- a few elements ---------------------------------------------------------

cdef enum:
    # What has more is a program: arrays, numbers and steps in all; steps; inputs of a step.
    FEW_VALUES = 16
    FEW_STEPS = 8
    FEW_INPUTS = 3

# A program takes longer than NumPy's calls, or than `few_values`: these do what has no array of more
# bytes than this.
cdef int64_t few_bytes = 0 if share_from() else 65536


def set_few_bytes(int64_t n):
    """For tests; what it was."""
    global few_bytes
    was, few_bytes = few_bytes, n
    return was


# Expressions of arrays that lie side by side in one order, and of numbers: a map whose steps have a
# register each, but for those that are asked for.  It holds no reference.
cdef struct Few:
    Map m
    Step steps[FEW_STEPS]
    PyObject* nodes[FEW_STEPS]      # of each step
    PyObject* numbers[FEW_VALUES]   # the arrays of the constants
    intptr_t sizes[FEW_STEPS]       # of each step's register; 0: it has none
    intptr_t scratch                # the sum of those
    int outs[FEW_STEPS]             # the operand that a step writes to instead
    int dims
    cnp.npy_intp shape[MAP_DIMS]
    int values
    PyObject* same[FEW_VALUES]      # of each value so far: the array of an input, or else the node itself
    int where[FEW_VALUES]           # and where it is, by the numbers of program.pxd
    double ns                       # that the dear steps take for an element


cdef int place_few(Few* f, Node node) except -2:
    """Where its values are, after the steps that make them; -1: it is no such expression."""
    cdef PyObject* same = <PyObject*>node.what if node.kind == NODE_INPUT else <PyObject*>node
    cdef int i, where = -1
    for i in range(f.values):
        if f.same[i] == same:
            return f.where[i]
    if node.kind == NODE_INPUT or node.kind == NODE_CONSTANT:
        if f.values < FEW_VALUES and cnp.PyArray_CheckExact(node.what):
            where = place_array(f, node.what, node.kind == NODE_CONSTANT)
    else:
        where = place_step(f, node)
    if where >= 0:
        f.same[f.values] = same
        f.where[f.values] = where
        f.values += 1
    return where


cdef int place_array(Few* f, ndarray a, bint is_number) noexcept:
    cdef Map* m = &f.m
    if not cnp.PyArray_ISALIGNED(a) or not cnp.PyArray_ISNOTSWAPPED(a):
        return -1
    if is_number:
        f.numbers[m.constants] = <PyObject*>a
        m.constants += 1
        return CONSTANT + m.constants - 1
    if m.size * cnp.PyArray_ITEMSIZE(a) > few_bytes or not cnp.PyArray_IS_C_CONTIGUOUS(a) or (
            cnp.PyArray_NDIM(a) != f.dims or not cnp.PyArray_CompareLists(cnp.PyArray_DIMS(a), f.shape, f.dims)):
        return -1
    return add_operand(m, <char*>cnp.PyArray_DATA(a), cnp.PyArray_ITEMSIZE(a))


cdef int add_operand(Map* m, char* at, intptr_t itemsize) noexcept:
    m.base[m.operands] = at
    m.sizes[m.operands] = m.strides[0][m.operands] = itemsize
    m.operands += 1
    return m.operands - 1


cdef int place_step(Few* f, Node node) except -2:
    """The same of a node that there is a loop for."""
    cdef Step s
    cdef cnp.dtype of, to = node.dtype
    cdef int i, n = len(node.args)
    if n == 0 or n > FEW_INPUTS or to.itemsize * f.m.size > few_bytes:
        return -1
    of = (<Node>node.args[n - 1]).dtype
    s.loop = NULL
    s.data = NULL
    if node.kind == NODE_CALL and len(node.resolved.dtypes) == n + 1:
        s.loop = node.resolved.loop
        s.data = node.resolved.data
        f.ns += DEAR_NS if node.resolved.dear else 0
    elif node.kind == NODE_CAST and of is not None:
        s.loop = number_cast(of, to)
        f.ns += DEAR_NS if is_half(of) or is_half(to) else 0
    elif node.kind == NODE_WHERE:
        s.loop = where_loop(to.itemsize, to.alignment)
        s.data = <void*><intptr_t>to.itemsize
    if s.loop == NULL:
        return -1
    for i in range(n):
        s.slots[i] = place_few(f, node.args[i])
        if s.slots[i] < 0:
            return -1
    if f.m.n_steps == FEW_STEPS or f.values == FEW_VALUES:
        return -1
    s.kind = STEP_LOOP
    s.slots[n] = REGISTER + f.m.n_steps
    s.args = n + 1
    f.nodes[f.m.n_steps] = <PyObject*>node
    f.sizes[f.m.n_steps] = to.itemsize
    f.scratch += to.itemsize
    f.steps[f.m.n_steps] = s
    f.m.n_steps += 1
    return s.slots[n]


cdef ndarray asked_of_few(Few* f, Node node, int where):
    """The array of these values, of which the last step's are one."""
    cdef ndarray made
    if where < REGISTER:
        return node.what
    made = empty(f.dims, f.shape, node.dtype, False)
    ask_of_few(f, where - REGISTER, <char*>cnp.PyArray_DATA(made))
    return made


cdef void ask_of_few(Few* f, int k, char* to) noexcept:
    """The k-th step writes there."""
    f.outs[k] = add_operand(&f.m, to, f.sizes[k])
    f.scratch -= f.sizes[k]
    f.sizes[k] = 0


cdef void finish_few(Few* f) noexcept:
    """Slots for what was numbered by kinds."""
    cdef Map* m = &f.m
    cdef int i, k, where
    cdef intptr_t room = NEAR_DOUBLES * sizeof(double) - 72 * m.n_steps
    m.steps = f.steps
    m.registers = m.n_steps - 1
    for k in range(m.registers):
        m.sizes[m.operands + k] = f.sizes[k]
    for k in range(m.constants):
        i = m.operands + m.registers + k
        m.sizes[i] = cnp.PyArray_ITEMSIZE(<ndarray>f.numbers[k])
        m.constant[i] = <char*>cnp.PyArray_DATA(<ndarray>f.numbers[k])
    for i in range(m.n_steps):
        for k in range(f.steps[i].args):
            where = f.steps[i].slots[k]
            if where >= REGISTER:
                where -= REGISTER
                f.steps[i].slots[k] = m.operands + where if f.sizes[where] > 0 else f.outs[where]
            elif where >= CONSTANT:
                f.steps[i].slots[k] = m.operands + m.registers + where - CONSTANT
    # Registers that are on the stack.
    m.block = m.size
    if f.scratch * m.size > room:
        m.block = max(<intptr_t>64, (room // f.scratch) & ~<intptr_t>63)
    map_begin(m)


cdef int run_few(Few* f) except -1:
    cdef Node node
    cdef int i, rc = 0
    finish_few(f)
    if f.m.size > BRIEF_ITEMS:
        with nogil:
            rc = map_walk(NULL, &f.m, 0, f.m.size, NULL, NULL)
    elif f.m.size > 0:
        rc = map_walk(NULL, &f.m, 0, f.m.size, NULL, NULL)
    check(rc, "the expression")
    for i in range(f.m.n_steps):
        if u32_load_relaxed(&f.steps[i].flags):
            node = <Node>f.nodes[i]
            report_flags("cast" if node.kind == NODE_CAST else node.what.__name__,
                         u32_load_relaxed(&f.steps[i].flags))
    return 0


cdef bint begin_few(Few* f, Node node) except -1:
    """Whether expressions of its shape may be such."""
    cdef int i
    if few_bytes == 0 or node.shape is None or len(node.shape) > MAP_DIMS:
        return False
    f.dims = len(node.shape)
    f.m.size = f.m.dims = 1
    f.m.operands = f.m.constants = f.m.n_steps = f.values = 0
    f.ns = 0
    f.scratch = 0
    for i in range(f.dims):
        f.shape[i] = node.shape[i]
        f.m.size *= f.shape[i]
    f.m.shape[0] = f.m.size
    return True


cdef ndarray few_values(Node node, bint quick):
    cdef Few f
    cdef Node values = node, mask = None
    cdef ndarray made, kept
    cdef uint8_t brief[BRIEF_ITEMS]
    cdef uint8_t* truths = brief
    cdef int where, where_kept = 0
    if node.kind == NODE_KEPT:
        # In one walk with its filter, for both may share steps, and each warns once.
        values, mask = node.args[0], node.domain.mask
        if mask.shape is None or values.shape is None or mask.depth > FEW_STEPS or len(mask.shape) != 1 or (
                not same_shape(mask.shape, values.shape)):
            return None
    if node.args == () or values.depth > FEW_STEPS or not begin_few(&f, values):
        return None
    where = place_few(&f, values)
    if where >= 0 and mask is not None:
        where_kept = place_few(&f, mask)
    if where < 0 or where_kept < 0 or (f.ns > 0 and (quick or pays(f.m.size, f.ns))):
        return None
    made = asked_of_few(&f, values, where)
    if mask is None:
        run_few(&f)
        return made
    if where_kept >= REGISTER and where_kept != where and f.m.size <= BRIEF_ITEMS:
        ask_of_few(&f, where_kept - REGISTER, <char*>brief)
    else:
        kept = made if where_kept == where else asked_of_few(&f, mask, where_kept)
        truths = <uint8_t*>cnp.PyArray_DATA(kept)
    if f.m.n_steps > 0:
        run_few(&f)
    check_length(made, f.m.size)
    return few_selected(made, truths)


cdef int check_length(ndarray a, int64_t n) except -1:
    """Another dtype gives an array of the caller's another length."""
    if cnp.PyArray_SIZE(a) != n:
        raise IndexError(f"an array of {n} elements has {cnp.PyArray_SIZE(a)} now, and is no longer what was filtered")
    return 0


cdef bint is_few_items(ndarray a) noexcept:
    return cnp.PyArray_NBYTES(a) <= few_bytes


cdef bint is_few(Node node) noexcept:
    """Whether it is one step, which step_by_numpy does faster than a program."""
    cdef int64_t items = 1
    if node.shape is None or node.args == ():
        return False
    if node.kind == NODE_CALL:
        if len(node.resolved.dtypes) - len(node.args) != 1:
            return False
    elif node.kind != NODE_CAST and node.kind != NODE_WHERE:
        return False
    for arg in node.args:
        if (<Node>arg).kind != NODE_INPUT and (<Node>arg).kind != NODE_CONSTANT:
            return False
    for length in node.shape:
        items *= <int64_t>length
    if node.kind == NODE_CALL and node.resolved.loop != NULL and node.resolved.dear and pays(items, DEAR_NS):
        return False
    return items * (<cnp.dtype>node.dtype).itemsize <= few_bytes


cdef object step_by_numpy(Node node):
    """The node's values.  Its arguments have the dtypes of its loop."""
    cdef object first = (<Node>node.args[0]).what
    if node.kind == NODE_CAST:
        return first.astype(node.dtype)
    if len(node.args) == 1:
        return node.what(first)
    if len(node.args) == 2:
        return node.what(first, (<Node>node.args[1]).what)
    return node.what(*[(<Node>arg).what for arg in node.args])


# ---- arrays -----------------------------------------------------------------

cdef object array_of(Node node):
    """Its values; of an array, itself."""
    return node.what if node.kind == NODE_INPUT else values_of(node)


cdef object values_of(Node node):
    cdef ndarray a, mask
    few = few_values(node, False)
    if few is not None:
        return few
    if is_few(node):
        return step_by_numpy(node)
    if is_selected(node):
        # With a byte for each element it is known where each goes; programs gather them first, and copy.
        mask, a = array_of(node.domain.mask), (<Node>node.args[0]).what
        check_length(mask, node.domain.mask.shape[0])
        if cnp.PyArray_NDIM(a) == 1 and cnp.PyArray_DIM(a, 0) == cnp.PyArray_SIZE(mask):
            return select_items(a, mask, False)[0]
    return (collect_kept([node], None) if node.domain is not None else collect_all([node], None))[0]


cdef list collect(list nodes, object out):
    if out is None and len(nodes) == 1:
        return [values_of(nodes[0])]
    return collect_kept(nodes, out) if (<Node>nodes[0]).domain is not None else collect_all(nodes, out)


cdef list collect_all(list nodes, object out):
    """Of no filter."""
    cdef Program p
    cdef Node n = nodes[0]
    if out is None:
        outs = [empty_for(node) for node in nodes]
        if len(nodes) > 1 and not all([one.flags.c_contiguous for one in outs]):
            # A pass goes in one order.  Arrays of other orders would be written with gaps, which is slow,
            # and which some loops of NumPy's do wrong (isnan, 2.4.6).
            return [values_of(node) for node in nodes]
    else:
        outs = [out]
        check_out(out, n.shape)
        if not np.can_cast(n.dtype, out.dtype, "same_kind"):
            raise TypeError(f"out: cannot cast the result from {n.dtype} to {out.dtype} "
                            "according to the rule 'same_kind'")
        for part in depends(n):
            if (<Node>part).kind == NODE_INPUT and may_overlap(out, (<Node>part).what) and (
                    not same_memory(out, (<Node>part).what)):
                out[...] = values_of(n)
                return [out]
        if overlaps_itself(out) or not (cnp.PyArray_ISALIGNED(out) and out.dtype.isnative):
            out[...] = values_of(n)
            return [out]
    if n.shape is not None and len(n.shape) > MAP_DIMS:
        for i, one in enumerate(outs):
            if not one.flags.c_contiguous:
                one[...] = collect([nodes[i]], np.empty(one.shape, one.dtype.newbyteorder("=")))[0]
                if len(nodes) == 1:
                    return outs
    p = program_of(nodes, outs, False)
    if p is None:
        return [collect([node], o)[0] for node, o in zip(nodes, outs)]
    run_only(p)
    return outs


cdef object empty_for(Node node):
    """Allocated in the memory order in which NumPy would."""
    if len(node.shape) < 2 or all_in_c_order(depends(node), len(node.shape)):
        return empty_of(node.shape, node.dtype)
    # NumPy decides by the strides of each step's operands: as for two elements an axis.
    small = np.asarray(shadow(node))
    order = sorted(range(small.ndim), key=lambda axis: -abs(small.strides[axis]))
    made = empty_of([node.shape[axis] for axis in order], node.dtype)
    return made.transpose(numpys.argsort(order, kind="stable"))


cdef bint all_in_c_order(list order, int ndim) except -1:
    cdef Node n
    for part in order:
        n = part
        if n.kind == NODE_INPUT and not (cnp.PyArray_IS_C_CONTIGUOUS(<ndarray>n.what)
                                         and cnp.PyArray_NDIM(<ndarray>n.what) == ndim):
            return False
    return True


cdef object shadow(Node node):
    """An array of at most two elements an axis, in the memory order of the node's."""
    cdef Node n
    cdef dict made = {}
    for part in depends(node):
        n = part
        if n.kind == NODE_INPUT or n.kind == NODE_INDEX:
            made[n] = items_at(n)[(slice(0, 2),) * len(n.shape)]
        elif n.kind == NODE_CONSTANT:
            made[n] = n.what
        elif n.kind == NODE_CAST or n.kind == NODE_COPY:
            made[n] = np.empty_like(made[n.args[0]], n.dtype)
        else:
            # Any loop of so many operands will do.
            args = [made[arg] for arg in n.args]
            made[n] = np.nditer(args + [None], ["refs_ok", "zerosize_ok"],
                                [["readonly"]] * len(args) + [["writeonly", "allocate"]],
                                op_dtypes=[None] * len(args) + [n.dtype]).operands[-1]
    return made[node]


cdef bint is_selected(Node node) except -1:
    """Whether it is what one filter keeps of an array of its length."""
    cdef Node kept, mask
    if node.kind != NODE_KEPT or node.domain.depth > 1:
        return False
    kept, mask = node.args[0], node.domain.mask
    return kept.kind == NODE_INPUT and is_side_by_side(kept.what) and (
        mask.shape is not None and same_shape(mask.shape, kept.shape))


cdef list collect_kept(list nodes, object out):
    """Of a filtered domain."""
    cdef Collect c
    cdef Program p
    cdef int k
    cdef int64_t total
    p = program_of(nodes, None, True)
    if p is None:
        # One at a time, of which each has its own pass.
        return [values_of(node) for node in nodes]
    c.map = &p.m
    c.values = len(nodes)
    c.grain = p.grain()
    for k in range(c.values):
        c.slots[k] = p.slots[k]
        c.sizes[k] = (<Node>nodes[k]).dtype.itemsize
    try:
        check(collect_begin(&c), "what was kept")
        run(<run_fn>collect_run, &c, "what was kept")
        total = collect_place(&c)
        outs = []
        for k in range(c.values):
            # The program's own type: of an array in the other byte order it is the machine's.
            outs.append(np.empty(total, p.type_at(p.values[k])))
            c.out[k] = <char*>cnp.PyArray_DATA(<ndarray>outs[k])
        run(<run_fn>collect_write, &c, "what was kept")
    finally:
        collect_free(&c)
    p.end()
    outs = [made.astype((<Node>node).dtype, copy=False) for made, node in zip(outs, nodes)]
    if out is not None:
        check_out(out, outs[0].shape)
        np.copyto(out, outs[0])
        return [out]
    return outs


# ---- positions, counts and effects ------------------------------------------

cdef Items items_of(Node node, Program p) noexcept:
    cdef Items items
    items.slot = p.slots[0]
    items.size = (<cnp.dtype>node.dtype).itemsize
    items.floats = (<cnp.dtype>node.dtype).kind == b"f"
    items.equal = False
    items.value.wide = 0
    return items


cdef ndarray equal_to(Node node):
    """Of a mask that says where an array is equal to a number: the number, if the array's words can
    be compared as they lie there.  None: they cannot, or it is another mask."""
    cdef Node a, value
    cdef cnp.dtype d
    if node.kind != NODE_CALL or node.what is not equal or simd.equal_wide == NULL:
        return None
    a, value = node.args
    if a.kind != NODE_INPUT or value.kind != NODE_CONSTANT or not is_side_by_side(a.what):
        return None
    d = a.dtype
    # A number of another type, as an unsigned one of a signed one, is compared by NumPy's own loop.
    if value.dtype is not None and value.dtype != d:
        return None
    if d.kind not in b"iuf" or d.itemsize not in (4, 8) or not cnp.PyDataType_ISNOTSWAPPED(d):
        return None
    return np.asarray(value.what, d)


cdef bint is_side_by_side(ndarray a) noexcept:
    return cnp.PyArray_IS_C_CONTIGUOUS(a) and cnp.PyArray_ISALIGNED(a)


cdef object find_node(Node node, int which):
    """The position of a true element of one dimension or more, or -1: of a mask, or for FIND_NONZERO and
    FIND_ZERO of what count_node takes."""
    cdef Find f
    cdef ndarray value = None if which == FIND_ZERO else equal_to(node)
    cdef Program p
    if value is not None:
        node = node.args[0]
    p = program_of([node], None, True)
    f.map = &p.m
    f.items = items_of(node, p)
    if value is not None:
        f.items.equal = True
        memcpy(&f.items.value, cnp.PyArray_DATA(value), f.items.size)
    f.which = <FindWhich>which
    # What is computed beyond the hit, and may warn, is the same each time.
    f.grain = p.grain(False)
    if p.m.size == 0:
        p.end()
        return -1
    run(<run_fn>find_run, &f, "the search")
    p.end()
    return i64_load_relaxed(&f.hit)


cdef object count_node(Node node):
    """How many are true: of a mask, or of an array of native numbers of 4 or 8 bytes side by side."""
    cdef CountNonzero c
    cdef Program p
    cdef ndarray counts, few = few_values(node, True)
    cdef int64_t total = 0, i
    if few is not None:
        return PyArray_CountNonzero(few)
    p = program_of([node], None, True)
    if p.m.size == 0:
        p.end()
        return 0
    c.map = &p.m
    c.items = items_of(node, p)
    c.grain = p.grain(True, 0)
    counts = np.zeros((p.m.size + c.grain - 1) // c.grain, np.int64)
    c.counts = <int64_t*>cnp.PyArray_DATA(counts)
    run(<run_fn>count_nonzero_run, &c, "the count")
    p.end()
    for i in range(cnp.PyArray_SIZE(counts)):
        total += c.counts[i]
    return total


cdef int run_for_effects(Node node) except -1:
    """For what its steps do."""
    return run_only(program_of([node], None, True))
