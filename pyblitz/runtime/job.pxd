"""The job: the one thing that a queue of the runtime holds.

A job is a header with one function pointer, embedded in the memory of whoever
made it: a fork lives on the forker's stack, a task on the heap.  Queues never
own a job; running it is the last that the runtime does with it, because the
function may free it.
"""

# The first argument is the Worker that runs the job.  Its type is known only
# further up (pool.pxd), hence the void pointer.
ctypedef void (*job_fn)(void* worker, Job* job) noexcept nogil

cdef struct Job:
    job_fn run          # runs the job
    Job* next           # link while the job is in an injector, otherwise free
