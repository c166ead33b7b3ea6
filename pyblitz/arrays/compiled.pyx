# cython: wraparound=True, boundscheck=True
"""Recognises compiled functions by type and signature: see compiled.pxd."""
import ctypes
import re
import sys

import numpy as np

from cpython.function cimport PyFunction_Check
from cpython.pycapsule cimport (
    PyCapsule_GetContext, PyCapsule_GetName, PyCapsule_GetPointer)

from pyblitz.kernels.user cimport KERNEL_INPUTS

# ---- C types ----------------------------------------------------------------

cdef dict c_types = {
    "_Bool": "?", "bool": "?", "boolean": "?", "npy_bool": "?",
    "float": "f4", "double": "f8", "npy_float": "f4", "npy_double": "f8",
    "float32": "f4", "float64": "f8", "float32_t": "f4", "float64_t": "f8",
    "npy_float32": "f4", "npy_float64": "f8",
    "float complex": "c8", "double complex": "c16", "complex64": "c8", "complex128": "c16",
    "float _Complex": "c8", "double _Complex": "c16", "_cffi_float_complex_t": "c8",
    "_cffi_double_complex_t": "c16", "__pyx_t_float_complex": "c8",
    "__pyx_t_double_complex": "c16",
    "ssize_t": "p", "Py_ssize_t": "p", "npy_intp": "p", "intptr_t": "p", "ptrdiff_t": "p",
    "intp": "p", "size_t": "P", "uintptr_t": "P", "npy_uintp": "P", "uintp": "P",
    "npy_byte": "b", "npy_ubyte": "B", "npy_short": "h", "npy_ushort": "H", "npy_int": "i",
    "npy_uint": "I", "npy_long": "l", "npy_ulong": "L", "npy_longlong": "q",
    "npy_ulonglong": "Q",
}
for _bits in (8, 16, 32, 64):
    for _sign in ("int", "uint"):
        for _form in (f"{_sign}{_bits}_t", f"{_sign}{_bits}", f"npy_{_sign}{_bits}"):
            c_types[_form] = f"{_sign[0]}{_bits // 8}"

# C's own integers, by what is left of their words, in order, without a redundant
# "int" and "signed".
cdef dict c_integers = {
    "": "i", "unsigned": "I", "short": "h", "short unsigned": "H", "long": "l",
    "long unsigned": "L", "long long": "q", "long long unsigned": "Q", "char signed": "b",
    "char unsigned": "B",
}


cdef object dtype_of(str text):
    """The number type that a C type is, or None.  Plain ``char`` is none: its sign
    depends on the platform."""
    cdef object code = c_types.get(text)
    if code is None:
        words = sorted(text.split())
        if words and set(words) <= {"signed", "unsigned", "char", "short", "int", "long"}:
            drop = {"int"} if "char" in words else {"int", "signed"}
            code = c_integers.get(" ".join([w for w in words if w not in drop]))
    # By its size: of two C types of one size, NumPy prints one as if it were another.
    return None if code is None else np.dtype(np.dtype(code).str)


cdef str spelled(str text):
    """A C type with its words in order and a star for each pointer."""
    words = re.sub(r"\b(const|volatile|restrict)\b", " ", text).replace("*", " * ").split()
    return " ".join(words)


cdef tuple parse_signature(str text):
    """'double (double, double)' as ('double', ['double', 'double'])."""
    found = re.fullmatch(r"\s*([\w\s*]+?)\s*\(([^()]*)\)\s*(?:noexcept\s*)?(?:nogil\s*)?", text)
    if found is None:
        return None
    args = [spelled(a) for a in found.group(2).split(",")]
    return spelled(found.group(1)), [] if args in ([""], ["void"]) else args


# ---- where a function and its signature are ---------------------------------

cdef enum:
    # FUNCFLAG_PYTHONAPI of ctypes: to be called with the GIL.
    NEEDS_GIL = 4


cdef dict numba_signatures = {}     # id -> (Numba's signature, which this keeps alive, its text)


cdef str numba_signature(object sig):
    known = numba_signatures.get(id(sig))
    if known is not None:
        return known[1]
    types = [str(t) for t in (sig.return_type, *sig.args)]
    # What is behind a pointer may be a record, whose text has brackets.
    types = ["record *" if t.endswith("*") and not t[:-1].isidentifier() else t for t in types]
    if "complex64" in types:
        # LLVM passes its parts apart, C packs them into one register.
        raise TypeError("fn: a Numba cfunc with complex64 does not follow C's calling "
                        "convention; use complex128")
    types = ["void" if t == "none" else t for t in types]
    text = f"{types[0]} ({', '.join(types[1:])})"
    if len(numba_signatures) < 4096:
        numba_signatures[id(sig)] = (sig, text)
    return text


cdef tuple kernel_source(object fn):
    """(address, user data, signature) of a compiled function, or None."""
    if type(fn).__name__ == "LowLevelCallable" and isinstance(fn, tuple):
        # Whatever it was made of, it made a capsule of that.
        fn = tuple.__getitem__(fn, 0)
    if type(fn).__name__ == "PyCapsule":
        name = PyCapsule_GetName(fn)
        if name == NULL:
            raise TypeError("fn: the capsule has no name, so its signature is unknown")
        return (<size_t>PyCapsule_GetPointer(fn, name), <size_t>PyCapsule_GetContext(fn),
                (<bytes>name).decode())
    if isinstance(fn, ctypes._CFuncPtr):
        if fn.argtypes is None:
            raise TypeError("fn: the ctypes function has no argtypes, so its signature is unknown")
        if fn._flags_ & NEEDS_GIL:
            raise TypeError("fn: the ctypes function is to be called with the GIL (PyDLL, "
                            "PYFUNCTYPE); kernels run without it")
        args = ", ".join([ctypes_name(t) for t in fn.argtypes])
        return (ctypes.cast(fn, ctypes.c_void_p).value or 0, 0, f"{ctypes_name(fn.restype)} ({args})")
    if type(fn).__module__ == "_cffi_backend" and "_cffi_backend" in sys.modules:
        cffi = sys.modules["_cffi_backend"]
        if isinstance(fn, cffi._CDataBase):
            kind = cffi.typeof(fn)
            if kind.kind != "function":
                raise TypeError(f"fn: the cffi object is a {kind.cname!r}, not a function pointer")
            args = ", ".join([t.cname for t in kind.args] + ["..."] * kind.ellipsis)
            address = int(cffi.cast(cffi.FFI().typeof("uintptr_t"), fn))
            return address, 0, f"{kind.result.cname} ({args})"
        if hasattr(fn, "__name__"):
            # A function of a compiled cffi module is called through a wrapper.
            raise TypeError("fn: a function of a cffi module; give its address, "
                            "ffi.addressof(lib, name)")
    if hasattr(fn, "address") and hasattr(fn, "_sig"):      # Numba's cfunc
        return fn.address, 0, numba_signature(fn._sig)
    return None


cdef dict ctypes_names = {}


cdef str ctypes_name(object t):
    name = ctypes_names.get(t)
    if name is None:
        name = ctypes_name_of(t)
        if len(ctypes_names) < 4096:
            ctypes_names[t] = name
    return name


cdef str ctypes_name_of(object t):
    if t is None:
        return "void"
    if t is ctypes.c_void_p:
        return "void *"
    if hasattr(t, "contents"):
        return ctypes_name(t._type_) + " *"
    try:
        name = np.dtype(t).name
    except (TypeError, ValueError, NotImplementedError):
        name = getattr(t, "__name__", str(t))       # which no kernel takes
    return name


# ---- what a signature is ----------------------------------------------------

cdef class CompiledKernel:
    """A C function that was recognised, with what it takes and gives."""


cdef bint is_length(object t):
    # Of the width of a pointer.
    return t is not None and t.kind == "i" and t.itemsize == sizeof(void*)


cdef tuple elementwise_form(str text):
    """(block, inputs, takes user data, dtype) of a signature, or None."""
    parsed = parse_signature(text)
    if parsed is None:
        return None
    result, args = parsed
    takes_user = bool(args) and args[-1] == "void *"
    if result == "void":
        pointers = args[:-2]
        if (takes_user and 2 <= len(pointers) <= KERNEL_INPUTS + 1
                and is_length(dtype_of(args[-2]))
                and all([p.endswith(" *") for p in pointers])):
            types = {dtype_of(p[:-2]) for p in pointers}
            if len(types) == 1 and None not in types:
                return True, len(pointers) - 1, True, types.pop()
        return None
    scalars = args[:-1] if takes_user else args
    if not 1 <= len(scalars) <= KERNEL_INPUTS:
        return None
    types = {dtype_of(t) for t in [result] + scalars}
    if len(types) != 1 or None in types:
        return None
    return False, len(scalars), takes_user, types.pop()


cdef tuple range_form(str text):
    """(gives an int, takes user data) of a signature, or None."""
    parsed = parse_signature(text)
    if parsed is None:
        return None
    result, args = parsed
    if (len(args) not in (2, 3) or not is_length(dtype_of(args[0]))
            or not is_length(dtype_of(args[1])) or args[2:] not in ([], ["void *"])):
        return None
    if result == "void":
        return False, len(args) == 3
    kind = dtype_of(result)
    return (True, len(args) == 3) if kind is not None and kind == np.intc else None


cdef tuple less_form(str text):
    """(gives an int, takes user data, what is compared) of a signature, or None."""
    parsed = parse_signature(text)
    if parsed is None:
        return None
    result, args = parsed
    if len(args) not in (2, 3) or args[2:] not in ([], ["void *"]):
        return None
    if not all([p.endswith(" *") and not p.endswith("* *") for p in args]):
        return None
    kind = np.dtype("b") if result == "char" else dtype_of(result)
    if kind is None or kind.kind not in "biu" or kind.itemsize not in (1, 4):
        return None
    items = [dtype_of(p[:-2]) for p in args[:2]]
    if items[0] != items[1]:
        return None
    # A pointer to bytes is one to anything.
    item = items[0] if items[0] is not None and items[0].itemsize > 1 else None
    return kind.itemsize == 4, len(args) == 3, item


# signature -> form, of those seen
cdef dict elementwise_forms = {}
cdef dict range_forms = {}
cdef dict less_forms = {}


cdef object signature_form(str text, dict known):
    form = known.get(text)
    if form is None:
        if known is elementwise_forms:
            form = elementwise_form(text)
        else:
            form = range_form(text) if known is range_forms else less_form(text)
        if form is not None and len(known) < 4096:
            known[text] = form
    return form


cdef CompiledKernel recognised(object fn, dict known, str what, str expected):
    """The compiled kernel that ``fn`` is, with its form, or None; TypeError when it is one
    whose signature this module cannot call."""
    cdef CompiledKernel k
    # A function of Python's is none, and is not looked at further.
    source = None if PyFunction_Check(fn) else kernel_source(fn)
    if source is None:
        return None
    k = CompiledKernel()
    address, user, k.signature = source
    if address == 0:
        raise TypeError(f"fn: the pointer to a kernel {k.signature!r} is null")
    k.owner = fn
    k.kernel.fn = <void*><size_t>address
    k.kernel.user = <void*><size_t>user
    k.form = signature_form(k.signature, known)
    if k.form is None:
        raise TypeError(f"{what} of signature {k.signature!r}; expected {expected}")
    return k


cdef str elementwise_expected = (
    "T (T, ...), optionally with a last void *, or void (const T *, ..., T *, intptr_t, void *), "
    f"with 1 to {KERNEL_INPUTS} inputs, for one number type T")


cdef CompiledKernel as_kernel(object fn):
    cdef CompiledKernel k = recognised(
        fn, elementwise_forms, "fn: cannot call a kernel", elementwise_expected)
    if k is not None:
        k.block, k.kernel.inputs, k.kernel.takes_user, k.dtype = k.form
        k.kernel.itemsize = k.dtype.itemsize
    return k


cdef int check_dtype(CompiledKernel k, object dtype) except -1:
    if dtype is not None and np.dtype(dtype) != k.dtype:
        raise TypeError(f"dtype: the kernel {k.signature!r} gives {k.dtype}, not {np.dtype(dtype)}")
    return 0


cdef bint is_compiled(object fn):
    """Whether it is a compiled kernel, and not a number, array or ufunc."""
    return not isinstance(fn, (np.ufunc, np.ndarray, int, float, complex, np.generic)) and as_kernel(fn) is not None


cdef CompiledKernel as_range_kernel(object fn):
    cdef CompiledKernel k = recognised(
        fn, range_forms, "kernel: cannot call one",
        "void or int (intptr_t, intptr_t), optionally with a last void *")
    if k is not None:
        k.gives_int, k.kernel.takes_user = k.form
    return k


cdef CompiledKernel as_less(object fn):
    cdef CompiledKernel k = recognised(
        fn, less_forms, "less: cannot call a function",
        "int (const void *, const void *), optionally with a last void *, or bool")
    if k is not None:
        k.gives_int, k.kernel.takes_user, k.dtype = k.form
    return k
