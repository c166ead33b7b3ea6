"""The interpreter as the runtime needs it: thread states, exceptions, signals; and what a caller
does about the GIL.
"""
from pyblitz.runtime.pool cimport Hooks

cdef Hooks the_hooks        # ours for the runtime; blocks.pyx adds one

cdef struct Caller:
    void* gil           # what it let go of, or NULL
    bint unheard        # Python does not know this thread: nobody hears of an exception

# Around what is called from anywhere.  With ``lets_go``, a caller that holds the GIL does
# without it meanwhile.  caller_end takes the result, and returns it; the exception of a
# caller that Python does not know goes to sys.unraisablehook.
cdef void caller_begin(Caller* c, bint lets_go) noexcept nogil
cdef int caller_end(Caller* c, int rc) noexcept nogil
# Of such a caller's mistake, before it is raised: the exception stays set until then.
cdef void caller_mistaken() noexcept nogil
cdef void* let_go() noexcept nogil
cdef void take_back(void* gil) noexcept nogil

# The exception that is set, with its traceback, which then is set no more; NULL: none.
# And back; or nobody wants it.
cdef void* capture() noexcept nogil
cdef void restore(void* error) noexcept nogil
cdef void drop(void* error) noexcept nogil
# Raises the exception that is set.
cdef int raised() except -1
# The same where a call of the runtime returned -1, and MemoryError for another rc than 0.
cdef int check(int rc, str what) except -1

# From here on Python frees the states of threads that end.
cdef void interpreter_ends() noexcept
