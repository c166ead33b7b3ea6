# cython: wraparound=True, boundscheck=True
"""Programs: see program.pxd."""
import numpy as np

cimport numpy as cnp
from cpython.ref cimport Py_INCREF, PyObject
from libc.stdint cimport INT64_MAX, int64_t, intptr_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp
from numpy cimport ndarray

from pyblitz.arrays.common cimport (
    Resolved, Slices, fill_map, is_half, may_overlap, number_cast, report_flags)
from pyblitz.arrays.compiled cimport CompiledKernel
from pyblitz.arrays.front cimport DEAR_NS
from pyblitz.arrays.nodes cimport (
    NODE_BLOCKS, NODE_CALL, NODE_CAST, NODE_CONSTANT, NODE_COPY, NODE_INDEX, NODE_INPUT, NODE_KEPT, NODE_KERNEL,
    NODE_LOOK, NODE_PAIR, NODE_WHERE, Domain, common_shape, items_at, visit)
from pyblitz.kernels.copy cimport copy_loop
from pyblitz.kernels.map cimport (
    MAP_DIMS, MAP_OPERANDS, MAP_SLOTS, SCRATCH_BYTES, STEP_CALL, STEP_COMPRESS, STEP_INDEX,
    STEP_LOOP, STEP_PAIR, loop_fn, map_begin, map_grain)
from pyblitz.kernels.simd.levels cimport TURNED, Pairs, pair_fn, simd
from pyblitz.kernels.user cimport block_loop, scalar_loop
from pyblitz.kernels.where cimport where_loop
from pyblitz.runtime.atomic cimport u32_load_relaxed
from pyblitz.runtime.pool cimport Worker

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    ctypedef struct PyTypeObject:
        pass
    PyTypeObject PyArray_Type
    object PyArray_NewFromDescr(PyTypeObject*, cnp.dtype, int ndim, cnp.npy_intp* shape,
                                cnp.npy_intp* strides, void* data, int flags, PyObject*)

cdef enum:
    # Elements of a block that functions under the GIL are called with.
    CALL_ITEMS = 32768
    # Operands of more bytes come from memory; a block then has this in the place of SCRATCH_BYTES.
    FAR_BYTES = 8388608
    FAR_SCRATCH_BYTES = 12288

# Of which two are done in one pass, and their numbers in kernels/simd/pairs.h.
cdef dict pair_numbers = {np.add: 0, np.multiply: 1, np.subtract: 2, np.divide: 3}
cdef object square = np.square      # as a first one: x * x


cdef class _TooLarge(Exception):
    """More operands, registers or steps than a program has room for."""


# ---- calls under the GIL ----------------------------------------------------

cdef class PythonStep:
    """A step that needs the GIL: a function on arrays of one block."""
    cdef object fn
    cdef NodeKind kind
    cdef list dtypes        # of inputs and outputs
    cdef int inputs
    cdef Slices calls

    def _run(self, views, lo):
        ins, outs = views[:self.inputs], views[self.inputs:]
        if self.kind == NODE_CALL:
            self.fn(*ins, out=tuple(outs))
        elif self.kind == NODE_CAST:
            np.copyto(outs[0], ins[0], casting="unsafe")
        else:
            # Copies: the function may keep what it was given.
            copies = [a.copy() for a in ins]
            if self.kind == NODE_LOOK:
                self.fn(*copies)
                outs[0][...] = ins[0]
            else:
                result = np.asarray(self.fn(*copies))
                if result.shape not in ((), ins[0].shape):
                    raise ValueError(f"fn returned an array of shape {result.shape} for a block of shape "
                                     f"{ins[0].shape}; it must be elementwise")
                np.copyto(outs[0], result, casting="same_kind")


cdef int call_step(Worker* w, Step* s, char** args, const intptr_t* steps, int64_t lo,
                   intptr_t n) except -1 nogil:
    with gil:
        run_python_step(<PythonStep>s.data, args, steps, lo, n)
    return 0


cdef object run_python_step(PythonStep call, char** args, const intptr_t* steps, int64_t lo, intptr_t n):
    cdef cnp.npy_intp dim = n, stride
    cdef list views = []
    for i, dtype in enumerate(call.dtypes):
        stride = steps[i]
        Py_INCREF(dtype)        # which NumPy takes
        views.append(PyArray_NewFromDescr(
            &PyArray_Type, dtype, 1, &dim, &stride, args[i],
            cnp.NPY_ARRAY_WRITEABLE if i >= call.inputs else 0, NULL))
    try:
        call.calls.context.copy().run(call._run, views, lo)
    finally:
        views.clear()


# ---- programs ---------------------------------------------------------------

cdef class Program:
    """See program.pxd."""

    def __cinit__(self):
        self.lines = <Line*>malloc(MAX_STEPS * sizeof(Line))
        if self.lines == NULL:
            raise MemoryError("no memory for the program of an expression")
        self.whats = []
        self.resolved = []
        self.operands = []
        self.constants = []
        self.types = []
        self.owners = []
        self.seen = {}

    def __dealloc__(self):
        free(self.lines)
        free(self.steps)

    cdef int operand(self, object array) except -1:
        if len(self.operands) == MAP_OPERANDS:
            raise _TooLarge
        self.operands.append(array)
        return len(self.operands) - 1

    cdef int constant(self, object value) except -1:
        self.constants.append(value)
        return CONSTANT + len(self.constants) - 1

    cdef int register(self, object dtype) except -1:
        if len(self.types) == MAX_REGISTERS:
            raise _TooLarge
        self.types.append(dtype)
        return REGISTER + len(self.types) - 1

    cdef object type_at(self, int where):
        if where >= REGISTER:
            return self.types[where - REGISTER]
        return (<ndarray>(self.constants[where - CONSTANT] if where >= CONSTANT else self.operands[where])).dtype

    cdef Line* line(self, NodeKind kind, object what, Resolved resolved) except NULL:
        cdef Line* l
        if self.n_lines == MAX_STEPS:
            raise _TooLarge
        l = &self.lines[self.n_lines]
        self.n_lines += 1
        l.kind = kind
        l.ins = l.outs = 0
        l.last = False
        self.whats.append(what)
        self.resolved.append(resolved)
        return l

    cdef int converted(self, int where, object dtype) except -1:
        """As ``dtype``: a line of its own."""
        cdef Line* l
        cdef int made
        key = (where, dtype)
        found = self.seen.get(key)
        if found is not None:
            return found
        made = self.register(dtype)
        l = self.line(NODE_CAST, (self.type_at(where), dtype), None)
        l.ins = l.outs = 1
        l.args[0] = where
        l.args[1] = made
        self.seen[key] = made
        return made

    cdef int emit(self, Node node) except -1:
        """The lines of a node; where its value is."""
        cdef int first
        found = self.seen.get(node)
        if found is not None:
            return found
        # Positions that are broadcast are an array: a step counts all elements.
        if node.kind == NODE_INPUT or node.kind == NODE_INDEX and node.shape != self.shape:
            first = self.emit_input(items_at(node))
        elif node.kind == NODE_CONSTANT:
            first = self.constant(node.what if isinstance(node.what, ndarray) else np.asarray(node.what))
        elif node.kind == NODE_KEPT:
            raise AssertionError("an element is kept before it is used")
        elif node.kind == NODE_CAST:
            first = self.emit(node.args[0])
            if self.type_at(first) != node.dtype:
                first = self.converted(first, node.dtype)
        elif node.kind == NODE_COPY:
            first = self.in_register(self.emit(node.args[0]))
        else:
            first = self.emit_step(node) + node.output
        self.seen[node] = first
        return first

    cdef int emit_step(self, Node node) except -1:
        """The line of a function, if there is none yet; where its first value is."""
        cdef Line* l
        cdef int places[STEP_ARGS]
        cdef int i, n = len(node.args), first
        cdef int outs = len(node.resolved.dtypes) - n if node.kind == NODE_CALL else 1
        if n + outs > STEP_ARGS:
            raise _TooLarge
        for i in range(n):
            places[i] = self.emit(node.args[i])
            # A block kernel knows no gaps.
            if node.kind == NODE_KERNEL and (<CompiledKernel>node.what).block and not self.is_row(places[i]):
                places[i] = self.in_register(places[i])
        # Common subexpressions.  Functions may not be hashable; the node keeps them alive.  Those of Python may
        # give something else each time (random numbers), or look at elements.
        key = (<int>node.kind, node.what if node.kind == NODE_INDEX else id(
                   node if node.kind == NODE_BLOCKS or node.kind == NODE_LOOK else node.what),
               places[0] if n > 0 else -1, places[1] if n > 1 else -1, places[2] if n > 2 else -1,
               None if n <= 3 else tuple([places[i] for i in range(3, n)]),
               node.dtype if node.resolved is None else node.resolved)
        found = self.seen.get(key)
        if found is not None:
            return found
        first = self.register(node.resolved.dtypes[n] if node.kind == NODE_CALL else node.dtype)
        for i in range(1, outs):
            self.register(node.resolved.dtypes[n + i])
        l = self.line(node.kind, node.what, node.resolved)
        l.ins = n
        l.outs = outs
        for i in range(n):
            l.args[i] = places[i]
        for i in range(outs):
            l.args[n + i] = first + i
        self.seen[key] = first
        return first

    cdef bint is_row(self, int where):
        """Whether it lies side by side in every block."""
        return where >= REGISTER or (where < CONSTANT and len(self.shape) == 1
                                     and cnp.PyArray_NDIM(<ndarray>self.operands[where]) == 1
                                     and cnp.PyArray_IS_C_CONTIGUOUS(<ndarray>self.operands[where])
                                     and cnp.PyArray_SIZE(<ndarray>self.operands[where]) > 1)

    cdef int emit_input(self, ndarray a) except -1:
        cdef int found
        for found in range(len(self.operands)):
            if self.operands[found] is a:
                break
        else:
            found = self.operand(a)
        if not cnp.PyArray_ISALIGNED(a) or not cnp.PyArray_ISNOTSWAPPED(a):
            found = self.converted(found, a.dtype.newbyteorder("="))
        return found

    cdef int emit_filters(self, list nodes) except -1:
        """Everything up to the innermost filter of the values."""
        cdef Node n
        cdef Line* l
        cdef list order = []
        cdef set seen = set()
        cdef int i, k, mask, where
        for node in nodes:
            visit(node, seen, order)
        wanted = {}
        for node in order:
            n = node
            if n.kind == NODE_KEPT:
                wanted.setdefault(n.domain, []).append(n)
        for domain in sorted(wanted, key=filter_depth):
            mask = self.in_register(self.emit((<Domain>domain).mask))
            made, kept = {}, {}
            for node in wanted[domain]:
                n = node
                where = self.emit(n.args[0])
                if where not in made:
                    made[where] = self.register(self.type_at(where))
                kept[n] = made[where]
            pairs = list(made.items())
            for i in range(0, len(pairs), 3):
                l = self.line(NODE_KEPT, None, None)
                group = pairs[i:i + 3]
                l.last = i + 3 >= len(pairs)
                l.args[0] = mask
                for k in range(len(group)):
                    l.args[1 + k] = group[k][0]
                    l.args[1 + len(group) + k] = group[k][1]
                l.ins = 1 + len(group)
                l.outs = len(group)
            # What was there before is of another length.
            self.seen = kept
        return 0

    cdef int in_register(self, int where) except -1:
        """The same in memory of the program's own, side by side."""
        return where if where >= REGISTER else self.converted(where, self.type_at(where))

    cdef int finish(self, int n_values, list outs, bint in_order) except -1:
        """Turns the lines into a map.  outs: arrays for the values, or None."""
        cdef Places p
        cdef int i
        # Positions count in C order.  (No form has any: what is bound again has none.)
        for i in range(self.n_lines):
            in_order = in_order or self.lines[i].kind == NODE_INDEX
        self.join_lines(n_values, outs)
        for i in range(MAX_REGISTERS):
            p.place[i] = -1
        if outs is not None:
            self.place_outs(&p, outs)
        self.find_ends(&p, n_values)
        self.choose_registers(&p)
        if p.registers > p.room or len(self.shape) > MAP_DIMS:
            raise _TooLarge
        self.fill_steps(&p)
        for i in range(n_values):
            self.slots[i] = slot_of(self.values[i], &p)
        self.bind(self.shape, outs, in_order)
        self.seen = None
        return 0

    cdef int join_lines(self, int n_values, list outs) except -1:
        """Two neighbours that one loop does are one line, where nothing else reads what is between
        them."""
        cdef int readers[MAX_REGISTERS]
        cdef int i = 0, k, kept = 0
        cdef bint overwrites = False
        cdef Line* l
        cdef PairStep pair
        for i in range(MAX_REGISTERS):
            readers[i] = 0
        for i in range(self.n_lines):
            l = &self.lines[i]
            for k in range(l.ins):
                if l.args[k] >= REGISTER:
                    readers[l.args[k] - REGISTER] += 1
        for i in range(n_values):
            if self.values[i] >= REGISTER:
                readers[self.values[i] - REGISTER] += 1
        for a in self.operands:
            overwrites = overwrites or is_written(a, outs)
        i = 0
        while i < self.n_lines:
            pair = None if i + 1 == self.n_lines else self.pair_of(i, readers)
            # The ufuncs of floats may have to be run once more, to see which of them met an error.
            if pair is not None and pair.floats and overwrites:
                pair = None
            self.lines[kept] = self.lines[i]
            self.whats[kept] = self.whats[i]
            self.resolved[kept] = self.resolved[i]
            if pair is not None:
                i += 1
                l = &self.lines[kept]
                l.kind = NODE_PAIR
                l.ins = 3
                l.args[1] = l.args[pair.loops.inputs - 1]
                l.args[2] = self.lines[i].args[0 if pair.loops.turned else 1]
                l.args[3] = self.lines[i].args[2]
                self.whats[kept] = pair
            i += 1
            kept += 1
        self.n_lines = kept
        del self.whats[kept:]
        del self.resolved[kept:]
        return 0

    cdef PairStep pair_of(self, int i, const int* readers):
        """What does the line and the next one, if there is a loop for them."""
        cdef Line* l = &self.lines[i]
        cdef Line* after = &self.lines[i + 1]
        cdef Resolved r, r2
        cdef PairStep pair
        cdef pair_fn loop
        cdef int first, second, between
        cdef bint turned
        cdef cnp.dtype d
        if l.kind != NODE_CALL or after.kind != NODE_CALL or l.ins > 2 or after.ins != 2:
            return None
        first = pair_numbers[np.multiply] if self.whats[i] is square else pair_numbers.get(self.whats[i], -1)
        second = pair_numbers.get(self.whats[i + 1], -1)
        between = l.args[l.ins]
        turned = after.args[1] == between
        if first < 0 or second < 0 or not (turned or after.args[0] == between) or (
                readers[between - REGISTER] != 1):
            return None
        r = self.resolved[i]
        r2 = self.resolved[i + 1]
        if r.loop == NULL or r2.loop == NULL:
            return None
        d = r.dtypes[0]
        for dtype in r.dtypes + r2.dtypes:
            if dtype is not d:
                return None
        loop = pair_loop(d, first, second + (TURNED if turned else 0))
        if loop == NULL:
            return None
        pair = PairStep()
        pair.first = self.whats[i]
        pair.second = self.whats[i + 1]
        pair.loop = loop
        pair.loops.loops[0] = r.loop
        pair.loops.loops[1] = r2.loop
        pair.loops.data[0] = r.data
        pair.loops.data[1] = r2.data
        pair.loops.inputs = l.ins
        pair.loops.turned = turned
        pair.floats = d.kind == b"f"
        return pair

    cdef int place_outs(self, Places* p, list outs) except -1:
        """The last step of a value writes where it belongs, if it can."""
        cdef int i
        for i in range(len(outs)):
            if not self.may_write(self.values[i], outs[i], p):
                self.values[i] = self.copied(self.values[i], outs[i].dtype)
            p.place[self.values[i] - REGISTER] = self.operand(outs[i])
        return 0

    cdef int find_ends(self, Places* p, int n_values) except -1:
        """How long each register is needed."""
        cdef Line* l
        cdef int i, k, v
        for v in range(len(self.types)):
            p.end[v] = -1
        for i in range(self.n_lines):
            l = &self.lines[i]
            for k in range(l.ins + l.outs):
                if l.args[k] >= REGISTER:
                    p.end[l.args[k] - REGISTER] = i
        for i in range(n_values):
            if self.values[i] >= REGISTER:
                p.end[self.values[i] - REGISTER] = self.n_lines
        return 0

    cdef int choose_registers(self, Places* p) except -1:
        """The linear scan."""
        cdef Line* l
        cdef int i, k, v
        cdef bint in_place
        p.ops = len(self.operands)
        p.room = MAP_SLOTS - p.ops - len(self.constants)
        p.registers = p.n_idle = 0
        for i in range(self.n_lines):
            l = &self.lines[i]
            # An elementwise loop may write over what it reads, but for a pair, which may be run once more.
            in_place = l.kind == NODE_CALL and l.outs == 1
            for k in range(l.ins if in_place else 0):
                release_register(l.args[k], i, p)
            for k in range(l.ins, l.ins + l.outs):
                v = l.args[k] - REGISTER
                if p.place[v] < 0:
                    p.place[v] = free_register(p, (<cnp.dtype>self.types[v]).itemsize)
            for k in range(l.ins if in_place else 0, l.ins + l.outs):
                release_register(l.args[k], i, p)
        return 0

    cdef int fill_steps(self, Places* p) except -1:
        """The map's steps, and the registers that they use."""
        cdef Map* m = &self.m
        cdef int k
        m.registers = p.registers
        for k in range(p.registers):
            m.sizes[p.ops + k] = p.sizes[k]
        m.n_steps = self.n_lines
        self.steps = <Step*>calloc(max(self.n_lines, 1), sizeof(Step))
        if self.steps == NULL:
            raise MemoryError("no memory for the program of an expression")
        m.steps = self.steps
        for k in range(self.n_lines):
            self.fill_step(k, p)
        m.pace = DEAR_NS if m.dear else 0
        return 0

    cdef int bind(self, tuple shape, list outs, bint in_order) except -1:
        """What the map reads and writes: the operands, of which the last are `outs`, and the constants."""
        cdef Map* m = &self.m
        cdef cnp.npy_intp dims[MAP_DIMS]
        cdef int k, at, first_output = 0
        for k in range(len(shape)):
            dims[k] = shape[k]
        if in_order:
            first_output = -1
        elif outs is not None:
            first_output = len(self.operands) - len(outs)
        fill_map(m, self.operands, len(shape), dims, first_output)
        for k in range(m.operands):
            m.sizes[k] = cnp.PyArray_ITEMSIZE(<ndarray>self.operands[k])
        m.constants = len(self.constants)
        for k in range(m.constants):
            at = m.operands + m.registers + k
            m.sizes[at] = cnp.PyArray_ITEMSIZE(<ndarray>self.constants[k])
            m.constant[at] = <char*>cnp.PyArray_DATA(<ndarray>self.constants[k])
        m.block = self.block_items()
        return 0

    cdef int64_t block_items(self):
        """Elements of a block."""
        # A register has room for one more, in whole cache lines.
        cdef intptr_t bytes = 0, room = SCRATCH_BYTES - 72 * self.m.registers
        cdef int64_t whole = 0
        cdef int k
        for k in range(self.m.operands, self.m.operands + self.m.registers):
            bytes += self.m.sizes[k]
        if self.n_lines == 0:
            return INT64_MAX
        if self.calls is not None:
            return CALL_ITEMS
        if bytes == 0:
            return INT64_MAX if self.n_lines == 1 else 4096
        # What is read and written beside them is to stay in L1, too; and what is fetched ahead from memory.
        for a in self.operands:
            if cnp.PyArray_NDIM(<ndarray>a) > 0:
                bytes += cnp.PyArray_ITEMSIZE(<ndarray>a)
                whole += cnp.PyArray_NBYTES(<ndarray>a)
        if whole > FAR_BYTES:
            room = FAR_SCRATCH_BYTES - 72 * self.m.registers
        return min(<intptr_t>4096, max(<intptr_t>64, (room // bytes) & ~<intptr_t>63))

    cdef bint may_write(self, int where, object out, Places* p):
        """Whether the line that makes a value can write it into ``out``."""
        cdef Line* l
        cdef int i
        if where < REGISTER or p.place[where - REGISTER] >= 0 or self.type_at(where) != out.dtype:
            return False
        if not out.flags.forc:
            for i in range(self.n_lines):
                l = &self.lines[i]
                if l.kind == NODE_KERNEL and l.args[l.ins] == where and (<CompiledKernel>self.whats[i]).block:
                    return False
        return True

    cdef int copied(self, int where, object dtype) except -1:
        """A line that writes it once more."""
        cdef int made = self.register(dtype)
        cdef Line* l = self.line(NODE_CAST, (self.type_at(where), dtype), None)
        l.ins = l.outs = 1
        l.args[0] = where
        l.args[1] = made
        return made

    cdef int fill_step(self, int i, Places* p) except -1:
        cdef Line* l = &self.lines[i]
        cdef Step* s = &self.steps[i]
        cdef int k
        cdef Resolved r
        cdef CompiledKernel kernel
        what = self.whats[i]
        s.kind = STEP_LOOP
        s.args = l.ins + l.outs
        for k in range(s.args):
            s.slots[k] = slot_of(l.args[k], p)
        if l.kind == NODE_CALL:
            r = self.resolved[i]
            self.m.dear = self.m.dear or r.dear
            if r.loop != NULL:
                s.loop = r.loop
                s.data = r.data
            else:
                self.call(s, l.kind, what, r.dtypes, l.ins)
        elif l.kind == NODE_PAIR:
            s.kind = STEP_PAIR
            s.loop = <loop_fn>(<PairStep>what).loop
            s.data = &(<PairStep>what).loops
        elif l.kind == NODE_CAST:
            of, to = what
            self.m.dear = self.m.dear or is_half(of) or is_half(to)
            aligned = l.args[0] >= CONSTANT or cnp.PyArray_ISALIGNED(<ndarray>self.operands[l.args[0]])
            if of == to:
                s.loop = copy_loop(of.itemsize, of.alignment if aligned else 1)
                s.data = <void*><intptr_t>of.itemsize
            elif aligned:
                s.loop = number_cast(of, to)
            if s.loop == NULL:
                self.call(s, l.kind, None, what, 1)
        elif l.kind == NODE_WHERE:
            to = self.type_at(l.args[1])
            s.loop = where_loop(to.itemsize, to.alignment)
            s.data = <void*><intptr_t>to.itemsize
        elif l.kind == NODE_KEPT:
            s.kind = STEP_COMPRESS
            s.last = l.last
            for k in range(l.outs):
                s.slots[1 + 2 * k] = slot_of(l.args[1 + k], p)
                s.slots[2 + 2 * k] = slot_of(l.args[l.ins + k], p)
        elif l.kind == NODE_INDEX:
            s.kind = STEP_INDEX
            s.start, s.stride = what
        elif l.kind == NODE_KERNEL:
            kernel = what
            s.loop = block_loop if kernel.block else scalar_loop(
                <char>ord(kernel.dtype.kind), kernel.kernel.itemsize)
            s.data = &kernel.kernel
            self.m.dear = True
            self.owners.append(kernel)
        else:
            self.call(s, l.kind, what, [self.type_at(l.args[k]) for k in range(s.args)], l.ins)
        return 0

    cdef bint call(self, Step* s, NodeKind kind, object what, object dtypes, int inputs) except -1:
        cdef PythonStep c = PythonStep()
        cdef str name = "cast" if kind == NODE_CAST else what.__name__ if kind == NODE_CALL else "the expression"
        if self.calls is None:
            self.calls = Slices("the expression", True)
            self.call_name = name
        elif self.call_name != name:
            self.call_name = "the expression"
        c.fn = what
        c.kind = kind
        c.dtypes = list(dtypes)
        c.inputs = inputs
        c.calls = self.calls
        self.owners.append(c)
        s.kind = STEP_CALL
        s.call = <int (*)(Worker*, Step*, char**, const intptr_t*, int64_t, intptr_t) noexcept nogil>call_step
        s.data = <void*>c
        return True

    cdef int64_t grain(self, bint timed=True, int64_t made=8):
        cdef int64_t bytes = made, found
        for a in self.operands:
            if cnp.PyArray_NDIM(<ndarray>a) > 0:
                bytes += cnp.PyArray_ITEMSIZE(<ndarray>a)
        found = map_grain(bytes, self.m.pace if timed else DEAR_NS if self.m.dear else 0)
        if self.calls is not None:
            return max(found, <int64_t>CALL_ITEMS)
        # Several steps take as much longer: a leaf of a block or two is enough.
        return found if self.n_lines < 3 else max(<int64_t>1024, min(found, self.m.block))

    cdef object end(self):
        """Tells what the steps met, in NumPy's words, and gives the program back: the caller must not use
        it after this, for another thread may."""
        cdef int i
        cdef uint32_t flags
        for i in range(self.m.n_steps):
            what = self.whats[i]
            if self.lines[i].kind == NODE_PAIR:
                flags = u32_load_relaxed(&(<PairStep>what).loops.flags)
                if flags:
                    report_flags((<PairStep>what).first.__name__, flags)
                what = (<PairStep>what).second
            flags = u32_load_relaxed(&self.steps[i].flags)
            if flags:
                report_flags("cast" if self.lines[i].kind == NODE_CAST else what.signature
                             if self.lines[i].kind == NODE_KERNEL else what.__name__, flags)
        if self.calls is not None and self.calls.flags.seen:
            report_flags(self.call_name, self.calls.flags.seen)
        give_back(self)


cdef bint is_written(ndarray a, list outs) except -1:
    """Whether one of the arrays that are written, if there are any, may lie where this one does."""
    if outs is not None:
        for out in outs:
            if may_overlap(out, a):
                return True
    return False


cdef pair_fn pair_loop(cnp.dtype d, int first, int second) noexcept:
    """By their numbers in kernels/simd/pairs.h; NULL: there is none."""
    cdef const Pairs* pairs = simd.pairs
    if d.kind == b"f":
        if d.itemsize == 8:
            return pairs.doubles[first][second]
        if d.itemsize == 4:
            return pairs.floats[first][second]
    elif d.kind in b"iu":
        if d.itemsize == 8:
            return pairs.wide[first][second]
        if d.itemsize == 4:
            return pairs.narrow[first][second]
    return NULL


cdef void release_register(int where, int line, Places* p) noexcept:
    """Its register is free after its last reader."""
    cdef int v = where - REGISTER, k
    if v < 0 or p.end[v] != line or p.place[v] < p.ops:
        return
    for k in range(p.n_idle):
        if p.idle[k] == p.place[v]:
            return              # named twice by one line
    p.idle[p.n_idle] = p.place[v]
    p.n_idle += 1


cdef int free_register(Places* p, intptr_t size) except -1:
    """The slot of one for items of this size, an idle one if possible."""
    cdef int k, found
    for k in range(p.n_idle):
        found = p.idle[k]
        if p.sizes[found - p.ops] == size:
            p.n_idle -= 1
            p.idle[k] = p.idle[p.n_idle]
            return found
    if p.registers >= p.room:
        raise _TooLarge
    p.sizes[p.registers] = size
    p.registers += 1
    return p.ops + p.registers - 1


cdef int slot_of(int where, const Places* p) noexcept:
    if where >= REGISTER:
        return p.place[where - REGISTER]
    return where if where < CONSTANT else p.ops + p.registers + where - CONSTANT


def filter_depth(Domain f):
    return f.depth


# ---- programs that come again -----------------------------------------------

cdef enum:
    IDLE_PROGRAMS = 64  # are kept; one more, and these are dropped

# The programs that nobody uses, by the hashes of their forms.
cdef dict idle = {}


cdef int number_in(Form* f, FormNodes* of, Node node) noexcept:
    """The node's number in the form, which all nodes of one array share; -1: a form has no place for it."""
    cdef void* same = <void*>node.what if node.kind == NODE_INPUT else <void*>node
    cdef uint64_t word, what = 0, which
    cdef int i, k, n
    for i in range(f.nodes):
        if of.same[i] == same:
            return i
    n = len(node.args)
    if n > 3:
        return -1
    if node.kind == NODE_CALL:
        if node.resolved.loop == NULL:
            return -1
        what = <uint64_t><void*>node.what
        which = <uint64_t><void*>node.resolved
    elif node.kind == NODE_INPUT or node.kind == NODE_CONSTANT:
        if not cnp.PyArray_CheckExact(node.what) or not cnp.PyArray_ISALIGNED(<ndarray>node.what):
            return -1
        which = number_type(<object>cnp.PyArray_DESCR(<ndarray>node.what))
    elif node.kind == NODE_CAST or node.kind == NODE_WHERE:
        which = number_type(node.dtype)
    else:
        return -1
    word = <uint64_t>node.kind | <uint64_t>node.output << 8
    for i in range(n):
        k = number_in(f, of, node.args[i])
        if k < 0:
            return -1
        word |= <uint64_t>(k + 1) << (16 + 8 * i)
    if f.nodes == FORM_NODES or which == 0:
        return -1
    of.node[f.nodes] = <PyObject*>node
    of.same[f.nodes] = same
    add_word(f, word)
    add_word(f, what)
    add_word(f, which)
    f.nodes += 1
    return f.nodes - 1


cdef inline void add_word(Form* f, uint64_t word) noexcept:
    f.words[f.n_words] = word
    f.n_words += 1
    f.hash = (f.hash ^ word) * 0x9E3779B97F4A7C15u
    f.hash ^= f.hash >> 32


cdef uint64_t number_type(cnp.dtype d) noexcept:
    """A number for each type of native numbers; 0 for any other dtype."""
    if not cnp.PyDataType_ISNOTSWAPPED(d) or d.kind not in b"biufc":
        return 0
    return d.type_num + 1


cdef bint set_form(Form* f, FormNodes* of, list nodes, list outs) except -1:
    """False: these nodes have no form, so their program is not kept."""
    cdef Node n
    cdef int i, k
    cdef int numbers[COLLECTED]
    cdef uint64_t out = 0
    cdef bint overwrites = False
    f.nodes = f.n_words = 0
    f.hash = 0
    if len(nodes) > COLLECTED:
        return False
    for i in range(len(nodes)):
        n = nodes[i]
        if n.kind == NODE_CONSTANT or n.domain is not None:
            return False
        # A node that is so deep is made of more nodes than a form has; and number_in is recursive.
        if n.depth >= FORM_NODES or len(n.shape) > MAP_DIMS:
            return False
        numbers[i] = number_in(f, of, n)
        if numbers[i] < 0:
            return False
    for i in range(len(nodes)):
        if outs is not None:
            out = number_type(outs[i].dtype)
            if out == 0:
                return False
        add_word(f, <uint64_t>numbers[i] | out << 8)
    for k in range(f.nodes):
        n = <Node>of.node[k]
        if n.kind == NODE_INPUT:
            overwrites = overwrites or is_written(n.what, outs)
    add_word(f, overwrites)
    return True


cdef int give_back(Program p) except -1:
    if p.form.n_words == 0:
        return 0
    # The arrays and numbers are not kept.
    p.operands.clear()
    p.constants.clear()
    # An expression without elements runs nothing, so nothing else would clear the flags that it tells of.
    map_begin(&p.m)
    if len(idle) >= IDLE_PROGRAMS:
        idle.clear()
    idle[p.form.hash] = p
    return 0


cdef Program idle_program(Form* f, FormNodes* of, list nodes, list outs, bint in_order):
    """One of this form, bound to these arrays and numbers; None: there is none."""
    # Whoever takes it out has it alone.
    cdef Program p = idle.pop(f.hash, None)
    cdef Node n
    cdef int i
    if p is None or p.form.nodes != f.nodes or p.form.n_words != f.n_words or (
            memcmp(p.form.words, f.words, f.n_words * sizeof(uint64_t)) != 0):
        return None
    for i in range(f.nodes):
        n = <Node>of.node[i]
        if n.kind == NODE_INPUT:
            p.operands.append(n.what)
        elif n.kind == NODE_CONSTANT:
            p.constants.append(n.what)
    if outs is not None:
        p.operands += outs
    p.bind(shape_of_all(nodes), outs, in_order)
    return p


cdef Program one_program(list nodes, list outs, bint in_order):
    cdef Form f
    cdef FormNodes of
    cdef bint has_form = set_form(&f, &of, nodes, outs)
    cdef Program p = idle_program(&f, &of, nodes, outs, in_order) if has_form else None
    cdef int i
    if p is not None:
        return p
    try:
        p = lowered(nodes, outs, in_order)
    except _TooLarge:
        pass
    if p is not None and has_form and p.calls is None:
        p.form = f
        # Their addresses are in the words, and must not become those of others.
        for i in range(f.nodes):
            p.owners.append((<Node>of.node[i]).resolved)
    return p


cdef tuple shape_of_all(list nodes):
    """What the shapes of nodes are broadcast to; none of them is behind a filter."""
    return common_shape(tuple(nodes)) if len(nodes) > 1 else (<Node>nodes[0]).shape


cdef Program lowered(list nodes, list outs, bint in_order):
    cdef Program p = Program()
    cdef Node n
    cdef list order = []
    cdef set seen = set()
    cdef int i = 0, where
    if len(nodes) > COLLECTED:
        raise _TooLarge
    for node in nodes:
        if (<Node>node).depth > MAX_STEPS:
            raise _TooLarge
    # A number is of any domain.
    for node in nodes:
        n = node
        if n.kind != NODE_CONSTANT:
            break
    if n.domain is None:
        p.shape = shape_of_all(nodes)
    else:
        # The shape of what is read: that of the domain around all filters.
        for node in nodes:
            visit(node, seen, order)
        p.shape = common_shape(tuple([n for n in order if (<Node>n).domain is None]))
        p.emit_filters(nodes)
    for node in nodes:
        n = node
        where = p.emit(n)
        # A mask may be an array of the caller's, also behind a cast that does nothing: strided, and
        # others write to it.
        if outs is None and (n.domain is not None or n.kind == NODE_CONSTANT or n.dtype == np.bool_):
            where = p.in_register(where)
        p.values[i] = where
        i += 1
    p.finish(i, outs, in_order)
    return p


cdef str plan_of(list nodes):
    """The steps of the program that computes them, a line each."""
    cdef Program p
    cdef Line* l
    cdef int i, k
    p = one_program(nodes, None, True)
    if p is None:
        return "  in several passes: too large for one"
    lines = []
    for i in range(p.n_lines):
        l = &p.lines[i]
        what = p.whats[i]
        names = [name_of(p, l.args[k]) for k in range(l.ins)]
        if l.kind == NODE_CAST:
            call = f"{what[1]}({names[0]})"
        elif l.kind == NODE_INDEX:
            call = "index"
        elif l.kind == NODE_KEPT:
            call = f"keep({', '.join(names[1:])} where {names[0]})"
        elif l.kind == NODE_PAIR:
            between = f"{(<PairStep>what).first.__name__}({', '.join(names[:(<PairStep>what).loops.inputs])})"
            both = (names[2], between) if (<PairStep>what).loops.turned else (between, names[2])
            call = f"{(<PairStep>what).second.__name__}({', '.join(both)})"
        elif l.kind == NODE_KERNEL:
            call = f"kernel {(<CompiledKernel>what).signature!r} of {', '.join(names)}"
        else:
            call = f"{getattr(what, '__name__', type(what).__name__)}({', '.join(names)})"
            if p.steps[i].kind == STEP_CALL:
                call += "    under the GIL"
        lines.append(f"  {', '.join([name_of(p, l.args[l.ins + k]) for k in range(l.outs)])} = {call}")
    lines += [f"  -> {name_of(p, p.values[i])}" for i in range(len(nodes))]
    if p.n_lines:
        blocks = f"blocks of {p.m.block} elements" if p.m.block != INT64_MAX else "one step"
        lines.append(f"  in {blocks}, {p.m.registers} registers")
    give_back(p)
    return "\n".join(lines)


cdef str name_of(Program p, int where):
    if where >= REGISTER:
        return f"t{where - REGISTER}"
    if where >= CONSTANT:
        return str(p.constants[where - CONSTANT])
    a = p.operands[where]
    return f"a{where}:{a.dtype}{list(a.shape)}"
