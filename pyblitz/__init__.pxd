"""The cimport API and nothing else: see docs/cython.md for each name."""
from pyblitz.capi cimport (
    Scope, Worker,
    task_fn, range_fn, scope_fn, reduce_fn, combine_fn,
    broadcast_abi1 as broadcast,
    current_worker_abi1 as current_worker,
    join_abi1 as join,
    num_workers_abi1 as num_workers,
    parallel_for_abi1 as parallel_for,
    parallel_reduce_abi1 as parallel_reduce,
    run_abi1 as run,
    scope_abi1 as scope,
    spawn_abi1 as spawn,
    submit_abi1 as submit,
    worker_index_abi1 as worker_index,
)
