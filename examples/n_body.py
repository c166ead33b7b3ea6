"""Gravity between many bodies: a step of the leapfrog method, all pairs.

The forces on a block of bodies are a Python function; NumPy's loops inside it run in
parallel, and no matrix of all pairs is ever stored.  Run it with
``python examples/n_body.py``.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import pyblitz as pb

Floats = npt.NDArray[np.float64]
SOFTENING = 0.05  # bodies that meet do not fly apart
BLOCK = 16  # bodies at a time: what is computed for them fits into a cache


class Bodies(NamedTuple):
    mass: Floats  # (n,)
    position: Floats  # (n, 3)
    velocity: Floats  # (n, 3)


def cluster(n: int, seed: int) -> Bodies:
    """A ball of bodies that move a little, as a whole at rest."""
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=(n, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    position = direction * np.cbrt(rng.random((n, 1)))
    velocity = rng.normal(scale=0.3, size=(n, 3))
    return Bodies(np.full(n, 1 / n), position, velocity - velocity.mean(axis=0))


def pull(b: Bodies, lo: int, hi: int) -> Floats:
    """The acceleration of bodies lo .. hi by all of them."""
    apart = b.position[None] - b.position[lo:hi, None]  # (block, n, 3)
    squared = np.einsum("ijk,ijk->ij", apart, apart) + SOFTENING**2
    return np.asarray(np.einsum("ij,ijk->ik", b.mass / (squared * np.sqrt(squared)), apart))


def accelerations(b: Bodies) -> Floats:
    result = np.empty_like(b.position)

    def block(lo: int, hi: int) -> None:
        for i in range(lo * BLOCK, min(hi * BLOCK, len(result)), BLOCK):
            end = min(i + BLOCK, len(result))
            result[i:end] = pull(b, i, end)

    pb.par_for(-(-len(result) // BLOCK), block)
    return result


def leapfrog(b: Bodies, dt: float) -> Bodies:
    """Kick, drift, kick: half a step of velocity on either side of the move."""
    velocity = b.velocity + accelerations(b) * (dt / 2)
    moved = b._replace(position=b.position + velocity * dt)
    return moved._replace(velocity=velocity + accelerations(moved) * (dt / 2))


def energy(b: Bodies) -> float:
    """Kinetic and potential, over all pairs."""
    kinetic = 0.5 * pb.par_sum(b.mass[:, None] * b.velocity**2)
    potential = np.empty(len(b.mass))

    def block(lo: int, hi: int) -> None:
        for i in range(lo, hi):
            apart = b.position[i + 1 :] - b.position[i]
            distance = np.sqrt(np.einsum("ij,ij->i", apart, apart) + SOFTENING**2)
            potential[i] = -b.mass[i] * (b.mass[i + 1 :] / distance).sum()

    # The first bodies have the most partners: that is evened out by itself.
    pb.par_for(len(potential), block)
    return float(kinetic + pb.par_sum(potential))


def main(n: int = 1_000, steps: int = 5) -> tuple[Bodies, Bodies, float, float]:
    begin = now = cluster(n, seed=7)
    for _ in range(steps):
        now = leapfrog(now, dt=0.005)
    before, after = energy(begin), energy(now)
    moved = pb.par_mean(np.linalg.norm(now.position - begin.position, axis=1))
    print(f"{n} bodies, {steps} steps: moved by {moved:.4f} on average")
    print(f"energy {before:.9f}, then {after:.9f}")
    return begin, now, before, after


if __name__ == "__main__":
    main()
