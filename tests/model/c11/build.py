"""Builds the runtime's own sources against the checker instead of the processor.

Cython translates the .pyx and .pxd files of pyblitz/runtime as they are; only ``atomic.h`` is
another one, written from the operations that the real one defines.  gcc's -fsanitize=thread has
every access that is not atomic call the checker, too.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

HERE = Path(__file__).resolve().parent
RUNTIME = HERE.parents[2] / "pyblitz" / "runtime"
MODULES = ("deque", "sleep", "stats")
DIRECTIVES = ("boundscheck=False", "wraparound=False", "cdivision=True", "language_level=3")


def installed() -> bool:
    return shutil.which("gcc") is not None


def operations(header: str) -> str:
    """The macros that stand for the functions of the real atomic.h."""
    lines = []
    for name, rest in re.findall(r"^PB_(LOAD|STORE|RMW|CAS)\((.*)\)$", header, re.M):
        t, v, *more = (word.strip() for word in rest.split(","))
        result = f"({v})" + ("(uintptr_t)" if t == "ptr" else "")
        as_word = "(uint64_t)(uintptr_t)" if t == "ptr" else "(uint64_t)"
        access = "model_access(PB_SITE(OP_{}, {}, {}, {}), (void *)(a), sizeof *(a), {})"
        if name == "LOAD":
            op = f"{t}_load_{more[0]}"
            call = access.format(name, f'"{op}"', f"PB_ORDER_{more[0]}", "NONE", "0, 0, 0")
            lines.append(f"#define pb_{op}(a) ({result}{call})")
        elif name == "STORE":
            op = f"{t}_store_{more[0]}"
            call = access.format(
                name, f'"{op}"', f"PB_ORDER_{more[0]}", "NONE", f"0, {as_word}({v})(x), 0"
            )
            lines.append(f"#define pb_{op}(a, x) ((void){call})")
        elif name == "RMW":
            op = f"{t}_{more[0]}_{more[1]}"
            call = access.format(
                name,
                f'"{op}"',
                f"PB_ORDER_{more[1]}",
                "NONE",
                f"RMW_{more[0]}, {as_word}({v})(x), 0",
            )
            lines.append(f"#define pb_{op}(a, x) ({result}{call})")
        else:
            op = f"{t}_cas_{more[0]}"
            call = access.format(
                name,
                f'"{op}"',
                f"PB_ORDER_{more[1]}",
                f"PB_ORDER_{more[2]}",
                f"0, {as_word}({v})(x), {as_word}({v})(y)",
            )
            lines.append(f"#define pb_{op}(a, x, y) ((int){call})")
    return "\n".join(lines)


def run(*command: object, **where: object) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **where)
    if done.returncode or done.stderr:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def build(to: Path, runtime: Path = RUNTIME, flags: tuple[str, ...] = ()) -> None:
    """Makes ``to`` a directory from which ``import scenarios`` works, in a process of its own."""
    package = to / "pyblitz" / "runtime"
    package.mkdir(parents=True, exist_ok=True)
    for path in (package.parent / "__init__.py", package / "__init__.py", package / "__init__.pxd"):
        path.touch()
    (package.parent / "__init__.pxd").touch()
    for path in (*runtime.glob("*.pxd"), *runtime.glob("*.h")):
        if path.name != "atomic.h":
            shutil.copy(path, package)
    for name in MODULES:
        shutil.copy(runtime / f"{name}.pyx", package)
    header = (HERE / "atomic.h.in").read_text()
    header = header.replace("@OPERATIONS@", operations((runtime / "atomic.h").read_text()))
    (package / "atomic.h").write_text(header)
    shutil.copy(HERE / "scenarios.pyx", to)
    run(
        "gcc",
        "-O3",
        "-Wall",
        "-Wextra",
        "-fPIC",
        "-shared",
        "-o",
        to / "checker.so",
        HERE / "checker.c",
        f"-I{HERE}",
    )
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    words = [word for directive in DIRECTIVES for word in ("-X", directive)]
    include = (f"-I{to}", f"-I{HERE}", f"-I{sysconfig.get_path('include')}")
    for name in (*(f"pyblitz/runtime/{name}" for name in MODULES), "scenarios"):
        run(sys.executable, "-m", "cython", "--line-directives", *words, f"{name}.pyx", cwd=to)
        run(
            "gcc",
            "-std=gnu11",
            "-O1",
            "-g0",
            "-w",
            "-fPIC",
            "-fsanitize=thread",
            *include,
            *flags,
            "-c",
            "-o",
            f"{name}.o",
            f"{name}.c",
            cwd=to,
        )
        run("gcc", "-shared", "-Wl,-z,now", "-o", f"{name}{suffix}", f"{name}.o", cwd=to)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
