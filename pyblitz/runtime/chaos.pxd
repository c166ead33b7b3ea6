"""Named points where debug builds may delay a thread, or let a compare-and-swap
fail that its caller tries again: see chaos.h.  Nothing in other builds."""

cdef extern from "pyblitz/runtime/chaos.h" nogil:
    void chaos "pb_chaos"(const char* point)
    bint chaos_fails "pb_chaos_fails"(const char* point)
