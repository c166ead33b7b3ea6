"""The seam for counters: what a worker has done, or nothing at all.

Built with PYBLITZ_STATS the counters exist and ``count`` adds one to the
owner's own; otherwise both vanish in the preprocessor.  Counters are written
by their worker only and read when it is quiet, so they are plain words.
"""
from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #ifdef PYBLITZ_STATS
    typedef struct {
      uint64_t jobs, steals, failed_steals, promotions;
    } pb_stats;
    #define pb_count(s, field) ((void)((s)->field++))
    #define pb_stat(s, field) ((s)->field)
    #else
    typedef struct { char none; } pb_stats;
    #define pb_count(s, field) ((void)(s))
    #define pb_stat(s, field) ((void)(s), (uint64_t)0)
    #endif
    #define pb_count_jobs(s) pb_count(s, jobs)
    #define pb_count_steals(s) pb_count(s, steals)
    #define pb_count_failed_steals(s) pb_count(s, failed_steals)
    #define pb_count_promotions(s) pb_count(s, promotions)
    """
    ctypedef struct Stats "pb_stats":
        pass
    void count_jobs "pb_count_jobs"(Stats*) nogil
    void count_steals "pb_count_steals"(Stats*) nogil
    void count_failed_steals "pb_count_failed_steals"(Stats*) nogil
    void count_promotions "pb_count_promotions"(Stats*) nogil
