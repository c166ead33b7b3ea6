"""The futures of jobs and tasks: the standard library's, which Ctrl-C cannot leave locked, and
which are told what came out also where there is no memory for a call of Python's.
"""

# Whether the job is to run; False: it was cancelled.
cdef bint begin_future(object future) except -1

# What came out of it, or that it was cancelled, to all who asked.  The exception, if any, that
# a signal's handler or a callback raised meanwhile: the last one.
cdef object end_future(object future, object result, object error)
