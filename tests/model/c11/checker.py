"""Scenarios of the real sources, explored; and every memory order in them, weakened."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
ORDERS = ("relaxed", "acquire", "release", "acq_rel", "seq_cst", "none")
LOAD, STORE, RMW, CAS, FENCE, BARRIER, SYSTEM = range(7)
NO_SC_ACCESSES, CXX20_SEQUENCES = 1, 2
# What an order may be weakened to, the strongest first.
WEAKER = {
    LOAD: {"seq_cst": ("acquire", "relaxed"), "acquire": ("relaxed",)},
    STORE: {"seq_cst": ("release", "relaxed"), "release": ("relaxed",)},
    RMW: {
        "seq_cst": ("acq_rel", "acquire", "release", "relaxed"),
        "acq_rel": ("acquire", "release", "relaxed"),
        "acquire": ("relaxed",),
        "release": ("relaxed",),
    },
    FENCE: {"seq_cst": ("none",)},
    SYSTEM: {},
}
WEAKER[CAS] = WEAKER[RMW]


class Checker:
    """A process that explores."""

    def __init__(self, built: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, HERE / "worker.py", built],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.scenarios: list[str] = self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        if not (line := self.process.stdout.readline()):
            raise RuntimeError(f"the checker ended with {self.process.wait()}")
        return json.loads(line)

    def explore(self, name: str, **options: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps((name, options)) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def __enter__(self) -> Checker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, order=True)
class Site:
    """An atomic access in the source."""

    file: str
    line: int
    op: str
    kind: int
    order: str
    fail: str

    @property
    def name(self) -> str:
        """Without a line, which every edit moves."""
        function, number = where(self.file)[self.line, self.op]
        return f"{Path(self.file).name} {function} {self.op}" + (f" #{number}" if number else "")

    def mutations(self) -> list[Mutation]:
        """The weakest first: what holds with it holds with the stronger ones."""
        orders = WEAKER.get(self.kind, {}).get(self.order, ())
        if self.op == "membarrier":
            orders = ("none",)
        made = [Mutation(self, 0, order) for order in reversed(orders)]
        if self.fail not in ("none", "relaxed"):
            made.append(Mutation(self, 1, "relaxed"))
        if self.kind == BARRIER and (store := store_above(self)):
            made.append(Mutation(store, 2, "none", self))
        return made


@dataclass(frozen=True)
class Mutation:
    site: Site
    part: int  # 0: the order; 1: the order on failure; 2: a barrier less, so the store sinks
    order: str
    barrier: Site | None = None

    @property
    def name(self) -> str:
        if self.barrier is not None:
            return f"{self.barrier.name}: removed"
        if self.order == "none":
            return f"{self.site.name}: removed"
        return f"{self.site.name}: {'on failure ' if self.part else ''}{self.order}"

    def key(self) -> tuple[str, int, str, int, int]:
        site = self.site
        return site.file, site.line, site.op, self.part, ORDERS.index(self.order)


@cache
def where(file: str) -> dict[tuple[int, str], tuple[str, int]]:
    """Line and operation to the function around it, and which of several it is there (0: the
    only one)."""
    function, found = "", {}
    for number, line in enumerate((ROOT / file).read_text().splitlines(), 1):
        start = re.match(r"(?:cdef|static) .*?\b(\w+)\(", line)
        if start and not line.rstrip().endswith((";", "nogil")):
            function = start[1]
        code = line.split("#")[0] if not file.endswith(".h") else line
        for op in re.findall(r"\b(?:pb_)?(\w*(?:load|store|exchange|fetch|cas)_\w+)\(", code):
            found.setdefault((number, op), function)
        for op in ("fence_seq_cst", "compiler_barrier", "syscall"):
            if f"{op}(" in code:
                found[number, op] = function
                if op == "syscall":
                    found[number, "membarrier"] = function
        if "atomic_compare_exchange_strong_explicit(" in code:
            found[number, "compare_exchange"] = function
    result = {}
    for (number, op), function in found.items():
        alike = [n for (n, o), f in found.items() if (o, f) == (op, function)]
        result[number, op] = function, alike.index(number) + 1 if len(alike) > 1 else 0
    return result


_sites: set[Site] = set()


def sites_of(result: dict[str, Any]) -> list[Site]:
    """The runtime's own sites that were reached."""
    found = [
        Site(file, line, op, kind, ORDERS[order], ORDERS[fail])
        for file, line, op, kind, order, fail in result["sites"]
        if file.startswith("pyblitz/")
    ]
    _sites.update(found)
    return found


def store_above(barrier: Site) -> Site | None:
    """The relaxed store that the barrier keeps above what follows it, if it does that: of two
    loads, the checker always lets the second read an old value."""
    above = [
        site
        for site in _sites
        if site.file == barrier.file
        and site.line < barrier.line
        and where(site.file)[site.line, site.op][0]
        == where(barrier.file)[barrier.line, barrier.op][0]
    ]
    last = max(above, default=None)
    return last if last is not None and last.kind == STORE else None
