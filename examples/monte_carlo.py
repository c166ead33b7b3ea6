"""Monte Carlo with a random stream for each block: the same answer for any number of
threads.

What an option on the average price of a share is worth, by simulating the price many times.
A block of simulations draws from a stream that belongs to the block, not to the thread
that happens to run it.  Run it with ``python examples/monte_carlo.py``.
"""

import math

import numpy as np
import numpy.typing as npt

import pyblitz as pb

PATHS = 200_000
BLOCK = 4_096  # simulations that share a stream: part of the answer, as the seed is
STEPS = 12


def simulate(rng: np.random.Generator, paths: int) -> npt.NDArray[np.float64]:
    """Payoffs of an option to buy at 100 that looks at the average of 12 monthly prices,
    in a year with 3 % of interest and 20 % of volatility."""
    rate, volatility, dt = 0.03, 0.2, 1 / STEPS
    noise = rng.standard_normal((STEPS, paths))
    growth = (rate - volatility**2 / 2) * dt + volatility * math.sqrt(dt) * noise
    prices = 100 * np.exp(np.cumsum(growth, axis=0))
    return np.asarray(math.exp(-rate) * np.maximum(prices.mean(axis=0) - 100, 0))


def payoffs(seed: int) -> npt.NDArray[np.float64]:
    blocks = -(-PATHS // BLOCK)
    streams = np.random.SeedSequence(seed).spawn(blocks)
    result = np.empty(PATHS)

    def run(lo: int, hi: int) -> None:
        for block in range(lo, hi):
            part = result[block * BLOCK : (block + 1) * BLOCK]
            part[:] = simulate(np.random.default_rng(streams[block]), len(part))

    # Ranges of blocks differ from run to run; what is in a block does not.
    pb.par_for(blocks, run)
    return result


def value(seed: int) -> tuple[float, float]:
    """What the option is worth, and the standard error of that."""
    paid = payoffs(seed)
    return float(pb.par_mean(paid)), float(pb.par_std(paid, ddof=1)) / math.sqrt(PATHS)


def main() -> dict[int, tuple[float, float]]:
    values = {}
    for threads in (1, 2, 5):
        with pb.ThreadPool(threads) as pool:
            values[threads] = pool.install(value, 42)
        worth, error = values[threads]
        print(f"{threads} threads: {worth!r}, give or take {error:.3f}")
    print(f"the same bits: {len(set(values.values())) == 1}")
    return values


if __name__ == "__main__":
    main()
