"""Checks a Promela model of this directory with Spin (spinroot.com), which visits every state.

``spin -a`` writes a C program of the model; that searches depth first, with partial order
reduction, until it has visited every state or something is broken: an assertion, or a deadlock
("invalid end state").  A search that had to stop before is an Incomplete, never a result.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
OPTIONS = ("-w", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c")


class Incomplete(Exception):
    """The search did not visit every state: too deep, too large, too slow."""


@dataclass(frozen=True)
class Spin:
    file: str
    defines: tuple[tuple[str, int], ...] = ()
    mutation: str = ""

    def flags(self) -> list[str]:
        """For spin.  A name that the model does not know would leave it as it is: an error."""
        text = (HERE / self.file).read_text()
        for name, _ in self.defines:
            if not re.search(rf"^# *(el)?if.*\b{name}\b", text, re.M):
                raise ValueError(f"{self.file} has no {name}")
        if self.mutation and self.mutation not in mutations(self.file):
            raise ValueError(f"{self.file} has no mutation {self.mutation}")
        values = [*self.defines, *([("MUTATION", self.mutation)] if self.mutation else [])]
        return [f"-D{name}={value}" for name, value in values]


@dataclass(frozen=True)
class Result:
    states: int
    depth: int
    broken: str | None
    trace: tuple[str, ...]  # if broken: every step, then where all are and what the memory holds
    # If not: "process:line" of the model's steps, whichever copy if it is inlined several times.
    reached: frozenset[str] = frozenset()
    unreached: frozenset[str] = frozenset()

    def __str__(self) -> str:
        if self.broken is None:
            return f"holds in {self.states} states, depth {self.depth}"
        return "\n".join([f"BROKEN after {self.states} states: {self.broken}", *self.trace])


def installed() -> bool:
    return all(shutil.which(program) for program in ("spin", "gcc"))


def quickly() -> tuple[str, ...]:
    """A compiler that takes little time.  TinyCC takes a fiftieth of what gcc takes, and its
    programs are as fast as those of gcc without optimization."""
    return ("tcc",) if shutil.which("tcc") else ("gcc", "-O0")


def mutations(file: str) -> dict[str, str]:
    """What is behind ``#define name number`` for a name in lower case."""
    text = (HERE / file).read_text()
    return dict(re.findall(r"^#define ([a-z]\w*) [1-9]\d* +/\* (.*?) \*/$", text, re.M))


def check(
    model: Spin,
    *,
    memory_mb: int = 4000,
    seconds: float = 900,
    depth: int = 1_000_000,
    compiler: tuple[str, ...] = ("gcc", "-O1"),
) -> Result:
    """Visits all states, or those up to the first broken one.  Where few are expected, a search
    that is compiled by ``quickly()`` is over sooner."""
    with tempfile.TemporaryDirectory() as directory:

        def run(*command: str) -> str:
            try:
                done = subprocess.run(
                    command,
                    cwd=directory,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    check=False,
                    timeout=seconds,
                )
            except subprocess.TimeoutExpired:
                raise Incomplete(f"{model}: {command[0]} takes more than {seconds} s") from None
            if done.returncode != 0:
                raise RuntimeError(f"{model}: {' '.join(command)}:\n{done.stdout}")
            return done.stdout

        shutil.copy(HERE / model.file, directory)
        flags = model.flags()
        run("spin", *flags, "-a", model.file)
        run(*compiler, *OPTIONS, f"-DMEMLIM={memory_mb}")
        out = run("./pan", f"-m{depth}")
        broken = re.search(r"^pan:1: (.*?) \(at depth \d+\)$", out, re.M)
        numbers = re.search(
            r"depth reached (\d+), errors: (\d+)\n +(\S+) states, stored$", out, re.M
        )
        too_much = re.search(r"^(error: max search depth.*|pan: .*(memory|MEMLIM).*)$", out, re.M)
        if numbers is None or (broken is None and (too_much or numbers[2] != "0")):
            raise Incomplete(f"{model}: {too_much[1] if too_much else out}")
        states, depth = int(float(numbers[3])), int(numbers[1])
        if broken is None:
            return Result(states, depth, None, (), *coverage(run("./pan", "-d"), out))
        trace = run("spin", *flags, "-t", "-p", model.file).splitlines()
        return Result(states, depth, broken[1], tuple(line.strip() for line in trace))


def coverage(table: str, out: str) -> tuple[frozenset[str], frozenset[str]]:
    """Steps that were reached, and those that were not: of the table of all states, and what the
    search says in the end."""
    missed = set()
    process = ""
    for line in out.splitlines():
        if found := re.match(r"unreached in proctype (\w+)", line):
            process = found[1]
        elif found := re.match(r"\t\S+:\d+, state (\d+), ", line):
            missed.add((process, found[1]))
    steps: dict[bool, set[str]] = {True: set(), False: set()}
    for line in table.splitlines():
        if found := re.match(r"proctype (\w+)", line):
            process = found[1]
        elif found := re.match(r"\tstate +(\d+) .* \S+:(\d+) => (?!-end-)", line):
            steps[(process, found[1]) not in missed].add(f"{process}:{found[2]}")
    return frozenset(steps[True]), frozenset(steps[False] - steps[True])
