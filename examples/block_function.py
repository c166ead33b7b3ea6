"""A function of one's own, in plain Python, on blocks of an array.

pyblitz calls it with slices of some 512 KiB, from all its threads; NumPy's loops
inside it run in parallel.  Run it with ``python examples/block_function.py``.
"""

import numpy as np
import numpy.typing as npt

import pyblitz as pb

Floats = npt.NDArray[np.float64]


def great_circle(lat1: Floats, lon1: Floats, lat2: Floats, lon2: Floats) -> Floats:
    """Kilometres between places given in degrees (the haversine formula).

    A dozen temporaries, but each only as long as a block.
    """
    p1, l1, p2, l2 = (np.radians(x) for x in (lat1, lon1, lat2, lon2))
    h = np.sin((p2 - p1) / 2) ** 2 + np.cos(p1) * np.cos(p2) * np.sin((l2 - l1) / 2) ** 2
    return np.asarray(12742 * np.arcsin(np.sqrt(h)))


def main() -> tuple[Floats, Floats]:
    rng = np.random.default_rng(2)
    n = 1_000_000
    lat, lon = rng.uniform(-90, 90, n), rng.uniform(-180, 180, n)
    # The place to measure from is broadcast against the million others.
    distances = pb.par_map(great_circle, np.array([52.5]), np.array([13.4]), lat, lon)
    whole = great_circle(np.array([52.5]), np.array([13.4]), lat, lon)
    print(f"mean distance from Berlin: {pb.par_reduce(np.add, distances) / n:.1f} km")
    print(f"the same as all at once: {np.array_equal(distances, whole)}")
    return distances, whole


if __name__ == "__main__":
    main()
