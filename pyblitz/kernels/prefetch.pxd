"""Prefetches: hints, which may be given of any address.  The one that is asked for AHEAD items
before its use must be far enough for a miss, and not so far that it is gone again by then."""

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define pb_prefetch(p) __builtin_prefetch(p)
    /* Into L2: more lines can be on their way to it than to L1. */
    #define pb_prefetch_l2(p) __builtin_prefetch(p, 0, 2)
    #define pb_prefetch_write(p) __builtin_prefetch(p, 1)
    #else
    #define pb_prefetch(p) ((void)(p))
    #define pb_prefetch_l2(p) ((void)(p))
    #define pb_prefetch_write(p) ((void)(p))
    #endif
    """
    void prefetch "pb_prefetch"(const void* p) noexcept nogil
    void prefetch_l2 "pb_prefetch_l2"(const void* p) noexcept nogil
    void prefetch_write "pb_prefetch_write"(const void* p) noexcept nogil
