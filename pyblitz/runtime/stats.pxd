"""The seam for counters: what a worker has done.

Only what is rare beside its cost is counted: nothing at a fork that nobody steals.
Counters are written by one thread at a time and read when it is quiet, so they are
plain words.
"""
from libc.stdint cimport uint64_t

cdef struct Stats:
    # -- the worker's own
    uint64_t jobs           # taken from a queue and run
    uint64_t steals
    uint64_t failed_steals  # tries at a deque that did not look empty
    uint64_t promotions     # of lazy forks
    # -- by whoever claimed its wake
    uint64_t wakes
