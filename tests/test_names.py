"""The comments that name the partner of a memory order, and runtime/README.md, name what exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = [p for p in (ROOT / "pyblitz").rglob("*") if p.suffix in {".pyx", ".pxd", ".h", ".py"}]
README = ROOT / "pyblitz" / "runtime" / "README.md"
MODELS = [p for p in (ROOT / "tests" / "model").rglob("*") if p.suffix in {".py", ".pml", ".pyx"}]
# Names of functions and variables that are told from words by their form.
NAME = re.compile(r"\b[a-z]+(?:_[a-z0-9]+)+\b")
# What C11 calls its operations.
OPERATIONS = {"fetch_add", "fetch_sub", "fetch_and", "fetch_or"}


def without_comments(path):
    text = path.read_text()
    if path.suffix == ".h":
        return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    # Strings that are C, and those that are docstrings.
    text = re.sub(
        r'(extern from [^\n]*:\s*)?""".*?"""', lambda m: m[0] if m[1] else "", text, flags=re.S
    )
    return re.sub(r"(?m)^\s*# [^\n]*|  # [^\n]*", "", text)


CODE = "\n".join(without_comments(p) for p in SOURCES)
WORDS = set(re.findall(r"\b[A-Za-z_]\w*\b", CODE))
FUNCTIONS = set(re.findall(r"\b([A-Za-z_]\w*)\s*\(", CODE)) | set(re.findall(r"\bvoid (\w+)", CODE))


def partners():
    """(place, text) of each comment, from where it names a partner."""
    for path in SOURCES:
        lines = path.read_text().splitlines()
        comment = re.compile(r"\s*(?:/?\*+|#)\s?(.*)" if path.suffix == ".h" else r"\s*#\s?(.*)")
        for i, line in enumerate(lines):
            if "partner" not in line or not re.search(r"#|/?\*", line):
                continue
            text = line[line.index("partner") :]
            for following in lines[i + 1 :]:
                more = comment.match(following)
                if more is None or text.rstrip().endswith((".", "*/")):
                    break
                text += " " + more[1]
            yield f"{path.relative_to(ROOT)}:{i + 1}", text


def test_partners_of_comments_exist():
    found = list(partners())
    assert len(found) > 50
    known = FUNCTIONS | OPERATIONS
    unknown = [(at, n) for at, text in found for n in NAME.findall(text) if n not in known]
    assert not unknown


def exists(name):
    """As it stands, or without the name of its module: `push` in the table of deque.pxd."""
    return name in WORDS or any(f.endswith("_" + name) for f in FUNCTIONS)


def tables():
    """(line, section, cells) of the tables of all atomic operations."""
    section = None
    for i, line in enumerate(README.read_text().splitlines(), 1):
        if line.startswith("#"):
            section = line
        elif line.startswith("|") and section and section.startswith("### "):
            yield i, section, [cell.strip() for cell in line.strip("|").split("|")]


def test_functions_of_the_tables_exist():
    rows = [(i, cells) for i, _, cells in tables() if cells[0] not in ("function", "---")]
    assert len(rows) > 100
    unknown = []
    for i, cells in rows:
        plain = re.sub(r"\(.*?\)", "", cells[0])
        names = re.findall(r"\b[a-z]\w*\b", plain) if plain != "the counters" else []
        unknown += [(i, n) for n in names if not exists(n)]
    assert not unknown


def bodies():
    """{function: its text}; of those that have one name, all."""
    found = {}
    for path in SOURCES:
        if path.suffix == ".h":
            for m in re.finditer(
                r"(?ms)^static[^;{}=]*?\b(\w+)\([^;{}]*\) *\{(?:[^\n]*\}$|.*?^\})", path.read_text()
            ):
                found[m[1]] = found.get(m[1], "") + m[0]
            continue
        name, indent = None, 0
        for line in path.read_text().splitlines():
            begins = re.match(r"( *)(?:cdef|def) (?!class|struct|enum|extern)[^=]*?\b(\w+)\(", line)
            if begins:
                name, indent = begins[2], len(begins[1])
            elif line.strip() and not line.startswith(" " * (indent + 1)):
                name = None
            if name is not None:
                found[name] = found.get(name, "") + line + "\n"
    return found


def test_functions_of_the_tables_use_their_variables():
    known, wrong, looked_at = bodies(), [], 0
    for i, _, cells in tables():
        names = re.findall(r"\b[a-z]\w*\b", re.sub(r"\(.*?\)", "", cells[0]))
        variables = re.findall(r"\b[a-z]\w*\b", re.sub(r"\(.*?\)|\w+\.", "", cells[1]))
        if len(cells) < 5 or cells[1] in ("variable", "the counters", "latch state"):
            continue
        for name in names if variables else []:
            texts = [text for f, text in known.items() if f == name or f.endswith("_" + name)]
            looked_at += 1
            if not any(re.search(rf"(\b|_){v}\b", text) for v in variables for text in texts):
                wrong.append((i, name, variables))
    assert looked_at > 80
    assert not wrong


def test_names_in_the_readme_exist():
    text = "".join(p.read_text() for p in MODELS)
    unknown = [
        (i, name)
        for i, line in enumerate(README.read_text().splitlines(), 1)
        for name in NAME.findall(line)
        if not exists(name) and name not in OPERATIONS and not re.search(rf"\b{name}\b", text, re.I)
    ]
    assert not unknown


def test_tables_are_whole():
    """A blank line within a table ends it; what follows is no table without a head of its own."""
    lines = README.read_text().splitlines()
    broken = [
        i + 1
        for i, line in enumerate(lines)
        if line.startswith("|") and not lines[i - 1].startswith("|") and "---" not in lines[i + 1]
    ]
    assert not broken
