"""A first look: the same calls as NumPy's, on all cores.

Run it with ``python examples/first_look.py``.
"""

import numpy as np

import pyblitz as pb


def main() -> dict[str, object]:
    rng = np.random.default_rng(1)
    a = rng.random(2_000_000)

    # A ufunc's call, its reduction, and a sort: the answers are NumPy's.
    roots = pb.par_map(np.sqrt, a)
    total = pb.par_reduce(np.add, a)
    ordered = pb.par_sort(a)

    # Everything that the ufunc takes: several inputs, scalars, out, where, axes.
    table = a.reshape(1000, 2000)
    clipped = pb.par_map(np.minimum, table, 0.5, out=np.empty_like(table))
    peaks = pb.par_reduce(np.maximum, table, axis=1)

    # A pool of one's own, and what everything else would use.
    with pb.ThreadPool(2) as pool:
        same_total = pool.install(pb.par_reduce, np.add, a)

    print(f"{pb.num_threads()} threads")
    print(f"sum {total:.6f}, the same bits with two threads: {same_total == total}")
    print(f"median {ordered[len(ordered) // 2]:.6f}, largest of each row {peaks[:3]} ...")
    return {
        "roots": roots,
        "total": total,
        "same_total": same_total,
        "ordered": ordered,
        "clipped": clipped,
        "peaks": peaks,
        "a": a,
    }


if __name__ == "__main__":
    main()
