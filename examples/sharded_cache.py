"""A cache of several shards without a lock: the shard is the key of its jobs.

Each shard is a plain OrderedDict that forgets what was used longest ago.  A shard's jobs
run one at a time and in order, so a value is never computed twice at once, and hits and
misses are the same run after run.  Run it with ``python examples/sharded_cache.py``.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

import numpy as np

import pyblitz as pb

SHARDS = 16


class Shard:
    """Least recently used, at most ``size`` values; not safe for several threads."""

    def __init__(self, size: int, compute: Callable[[int], str]) -> None:
        self.size, self.compute = size, compute
        self.values: OrderedDict[int, str] = OrderedDict()
        self.hits = self.misses = 0

    def get(self, key: int) -> str:
        if key in self.values:
            self.hits += 1
            self.values.move_to_end(key)
        else:
            self.misses += 1
            self.values[key] = self.compute(key)
            if len(self.values) > self.size:
                self.values.popitem(last=False)
        return self.values[key]


class ShardedCache:
    def __init__(self, pool: pb.ThreadPool, size: int, compute: Callable[[int], str]) -> None:
        self.pool = pool
        self.shards = [Shard(size // SHARDS, compute) for _ in range(SHARDS)]

    def get(self, key: int) -> Future[str]:
        shard = key % SHARDS
        return self.pool.submit(self.shards[shard].get, key, affinity=shard)


class LockedCache:
    """The same with a lock for each shard."""

    def __init__(self, size: int, compute: Callable[[int], str]) -> None:
        self.shards = [Shard(size // SHARDS, compute) for _ in range(SHARDS)]
        self.locks = [threading.Lock() for _ in range(SHARDS)]

    def get(self, key: int) -> str:
        with self.locks[key % SHARDS]:
            return self.shards[key % SHARDS].get(key)


def thumbnail(key: int) -> str:
    """Stands for something that takes a while, and releases the GIL meanwhile."""
    return hashlib.sha256(b"%d" % key * 10_000).hexdigest()


def main() -> tuple[list[str], list[str], list[tuple[int, int]], list[tuple[int, int]]]:
    # A few keys are asked for very often, as in life.
    requests = np.random.default_rng(5).zipf(1.3, 20_000) % 5_000
    with pb.ThreadPool(4) as pool:
        cache = ShardedCache(pool, 800, thumbnail)
        answers = [f.result() for f in [cache.get(int(key)) for key in requests]]
    locked = LockedCache(800, thumbnail)
    expected = [locked.get(int(key)) for key in requests]
    counts = [(s.hits, s.misses) for s in cache.shards]
    hits = sum(h for h, _ in counts)
    print(f"{len(requests)} requests, {hits / len(requests):.0%} hits, no lock")
    print(f"the same as with locks: {answers == expected}")
    return answers, expected, counts, [(s.hits, s.misses) for s in locked.shards]


if __name__ == "__main__":
    main()
