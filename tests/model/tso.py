"""Shared memory as x86-TSO gives it: what models of lock-free algorithms run on.

Memory is a row of named cells that hold integers; every thread has a FIFO store buffer.

- A store goes into the thread's own buffer.  The oldest store of any buffer may move to
  memory at any time: that is a step of its own, a *flush*.
- A load sees the youngest store to its cell in the thread's own buffer, else memory.
- A fence (``mfence``) and a locked instruction (compare-and-swap, exchange) wait until the
  thread's own buffer is empty; the latter then act on memory at once.
- ``membarrier`` has a begin and an end, each a full fence of the caller.  In between, every
  other thread runs a full fence at a moment that the caller does not choose: the step
  "fenced", possible when that thread's buffer is empty (a fence that has to wait for the
  buffer is flush steps first).  The call ends once all were fenced.

This is the machine of Owens, Sarkar and Sewell, "A better x86 memory model: x86-TSO"
(TPHOLs 2009), without its global lock, which only matters to instructions of several
accesses; ours are one step.  The code that may run between a thread's fence and the end of
the call is any code: threads are not stopped.

What it does not cover: processors that reorder loads with loads or stores with stores
(ARM), compilers that reorder, and cells of which a part can be seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Tso(NamedTuple):
    memory: tuple[int, ...]
    # Per thread its buffered stores (cell, value), oldest first.
    buffers: tuple[tuple[tuple[int, int], ...], ...]
    # Per thread, as bits: who is yet to be fenced on behalf of its membarrier.
    unfenced: tuple[int, ...]

    def load(self, thread: int, cell: int) -> int:
        for c, value in reversed(self.buffers[thread]):
            if c == cell:
                return value
        return self.memory[cell]

    def store(self, thread: int, cell: int, value: int) -> Tso:
        buffer = (*self.buffers[thread], (cell, value))
        return Tso(self.memory, replace(self.buffers, thread, buffer), self.unfenced)

    def drained(self, thread: int) -> bool:
        """Whether the thread's fence, or locked instruction, can happen now."""
        return not self.buffers[thread]

    def compare_and_swap(self, thread: int, cell: int, old: int, new: int) -> Tso | None:
        """None if the cell holds something else."""
        assert self.drained(thread)
        if self.memory[cell] != old:
            return None
        return Tso(replace(self.memory, cell, new), self.buffers, self.unfenced)

    def membarrier_begin(self, thread: int) -> Tso:
        assert self.drained(thread)
        others = (1 << len(self.buffers)) - 1 & ~(1 << thread)
        return Tso(self.memory, self.buffers, replace(self.unfenced, thread, others))

    def membarrier_can_end(self, thread: int) -> bool:
        return self.drained(thread) and not self.unfenced[thread]

    def steps(self, threads: tuple[str, ...], cells: tuple[str, ...]) -> Iterator[tuple[str, Tso]]:
        """What the machine does on its own: flushes, and fences for a membarrier."""
        for thread, buffer in enumerate(self.buffers):
            if buffer:
                cell, value = buffer[0]
                yield (
                    f"{threads[thread]}: flush {cells[cell]} = {value}",
                    Tso(
                        replace(self.memory, cell, value),
                        replace(self.buffers, thread, buffer[1:]),
                        self.unfenced,
                    ),
                )
        for caller, who in enumerate(self.unfenced):
            for thread, name in enumerate(threads):
                if who >> thread & 1 and self.drained(thread):
                    rest = replace(self.unfenced, caller, who & ~(1 << thread))
                    yield (
                        f"{name}: fenced by the membarrier of {threads[caller]}",
                        Tso(self.memory, self.buffers, rest),
                    )


def machine(memory: tuple[int, ...], threads: int) -> Tso:
    return Tso(memory, ((),) * threads, (0,) * threads)


def replace(row: tuple[T, ...], i: int, value: T) -> tuple[T, ...]:
    """The tuple with another value at ``i``."""
    return (*row[:i], value, *row[i + 1 :])
