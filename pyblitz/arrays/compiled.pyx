# cython: wraparound=True, boundscheck=True
"""Recognises compiled functions by type and signature: see compiled.pxd."""
import ctypes
import re

import numpy as np

from cpython.pycapsule cimport (
    PyCapsule_GetContext, PyCapsule_GetName, PyCapsule_GetPointer)

cdef dict c_types = {
    "float": "f4", "double": "f8",
    "signed char": "i1", "unsigned char": "u1", "short": "h", "unsigned short": "H",
    "int": "i", "unsigned int": "I", "unsigned": "I", "long": "l", "unsigned long": "L",
    "long long": "q", "unsigned long long": "Q",
    "ssize_t": "p", "Py_ssize_t": "p", "npy_intp": "p", "intptr_t": "p", "size_t": "P",
    "float32": "f4", "float64": "f8", "npy_float": "f4", "npy_double": "f8",
}
for _bits in (8, 16, 32, 64):
    for _sign in ("int", "uint"):
        for _form in (f"{_sign}{_bits}_t", f"{_sign}{_bits}", f"npy_{_sign}{_bits}"):
            c_types[_form] = f"{_sign[0].replace('i', 'i')}{_bits // 8}"


cdef class CompiledKernel:
    """A C function that was recognised, with what it takes and gives."""


cdef str canonical(str text):
    """A C type with its words in order and a star for each pointer."""
    words = text.replace("*", " * ").replace("const", " ").split()
    return " ".join(words)


cdef tuple parse_signature(str text):
    """'double (double, double)' as ('double', ['double', 'double'])."""
    found = re.fullmatch(r"\s*([\w\s*]+?)\s*\(([^()]*)\)\s*", text)
    if found is None:
        return None
    args = [canonical(a) for a in found.group(2).split(",")]
    return canonical(found.group(1)), [] if args in ([""], ["void"]) else args


cdef tuple kernel_source(object fn):
    """(address, user data, signature) of a compiled function, or None."""
    if type(fn).__name__ == "LowLevelCallable" and isinstance(fn, tuple):
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
        args = ", ".join([ctypes_name(t) for t in fn.argtypes])
        return (ctypes.cast(fn, ctypes.c_void_p).value, 0, f"{ctypes_name(fn.restype)} ({args})")
    if hasattr(fn, "address") and hasattr(fn, "_sig"):      # Numba's cfunc
        args = ", ".join([str(t) for t in fn._sig.args])
        return (fn.address, 0, f"{fn._sig.return_type} ({args})".replace("none", "void"))
    return None


cdef str ctypes_name(object t):
    if t is None:
        return "void"
    if t is ctypes.c_void_p:
        return "void *"
    if hasattr(t, "contents"):
        return ctypes_name(t._type_) + " *"
    return np.dtype(t).name


cdef CompiledKernel as_kernel(object fn):
    """The compiled kernel that ``fn`` is, or None; TypeError when it is one
    whose signature this module cannot call."""
    cdef CompiledKernel k
    source = kernel_source(fn)
    if source is None:
        return None
    address, user, text = source
    k = CompiledKernel()
    k.owner = fn
    k.signature = text
    k.kernel.fn = <void*><size_t>address
    k.kernel.user = <void*><size_t>user
    parsed = parse_signature(text)
    if parsed is not None:
        result, args = parsed
        k.kernel.takes_user = bool(args) and args[-1] == "void *"
        if result == "void":
            k.block = True
            pointers = args[:-2]
            if (len(pointers) in (2, 3) and k.kernel.takes_user
                    and c_types.get(args[-2], "") in ("p", "l", "q", "i8")
                    and len(set(pointers)) == 1 and pointers[0].endswith(" *")):
                k.kernel.inputs = len(pointers) - 1
                k.dtype = c_types.get(pointers[0][:-2])
        else:
            scalars = args[:-1] if k.kernel.takes_user else args
            if len(scalars) in (1, 2) and set(scalars) == {result}:
                k.kernel.inputs = len(scalars)
                k.dtype = c_types.get(result)
    if k.dtype is None:
        raise TypeError(
            f"fn: cannot call a kernel of signature {text!r}; expected T (T), T (T, T), either "
            "with a last void *, or void (const T *, T *, intptr_t, void *) with one or two "
            "inputs, for one real number type T")
    k.dtype = np.dtype(k.dtype)
    k.kernel.itemsize = k.dtype.itemsize
    return k


cdef bint is_compiled(object fn):
    """Whether it is a compiled kernel, and not a number, array or ufunc."""
    return not isinstance(fn, (np.ufunc, np.ndarray, int, float, complex, np.generic)) and as_kernel(fn) is not None
