"""What the documents say is run: docstrings, and Python blocks of README and docs."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path

import pytest

import pyblitz as pb

ROOT = Path(__file__).resolve().parent.parent
CANNOT_FAIL = {
    "num_threads",
    "disable",
    "CancelScope.cancel",
    "CancelScope.cancelled",
    "GroupBy",
    "TopK",
}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def public():
    for name in pb.__all__:
        thing = getattr(pb, name)
        yield name, thing
        if inspect.isclass(thing):
            for attribute, value in vars(thing).items():
                if not attribute.startswith("_") and callable(value):
                    yield f"{name}.{attribute}", value


@pytest.mark.parametrize(
    ("name", "thing"), list(public()), ids=lambda x: x if isinstance(x, str) else ""
)
def test_docstring(name, thing):
    """NumPy style, with an example that is true."""
    text = inspect.getdoc(thing)
    assert "Examples\n--------" in text
    takes_nothing = name.startswith("Par") and "." in name and "(self)" in text
    if name not in CANNOT_FAIL and not takes_nothing:
        assert "Raises\n------" in text
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    assert example.examples
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    assert runner.run(example).failed == 0


@pytest.mark.parametrize("name", [n for n in pb.__all__ if hasattr(getattr(pb, n), "__wrapped__")])
def test_every_parameter_is_described(name):
    """Also those that the front door describes: each once, in the signature's order."""
    text = inspect.getdoc(getattr(pb, name))
    section = re.search(r"\n\nParameters\n-+\n(.*?)\n\n(?:Returns|Raises)\n", text, re.S)[1]
    entries = re.findall(r"^(\S.*?)(?: : .*)?$", section, re.M)
    named = [each.lstrip("*") for entry in entries for each in entry.split(", ")]
    assert named == list(inspect.signature(getattr(pb, name)).parameters)
    assert re.findall(r"\n(\w+)\n-+\n", text).count("Examples") == 1


# kernels.md imports a module that it shows: test_example_cython.py builds it.
@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "kernels.md"], ids=lambda p: p.name)
def test_python_blocks(page):
    """The Python blocks of a page, in order, in one namespace."""
    text = page.read_text()
    namespace = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_figures_are_the_last_results():
    import importlib.util

    spec = importlib.util.spec_from_file_location("figures", ROOT / "benchmarks" / "figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for path, text in module.pages().items():
        assert path.read_text() == text, path


def test_every_public_name_is_on_a_page():
    text = "\n".join(page.read_text() for page in PAGES)
    names = {name.split(".")[-1] for name, _ in public()}
    assert not [name for name in sorted(names) if not re.search(rf"\b{name}\b", text)]


def test_environment_variables_are_listed():
    config = (ROOT / "pyblitz" / "host" / "config.py").read_text()
    page = (ROOT / "docs" / "from-numpy.md").read_text()
    listed = re.findall(r"^\| `(PYBLITZ_[A-Z_]+)`", page, re.M)
    assert sorted(listed) == sorted(set(re.findall(r"PYBLITZ_[A-Z_]+", config)))


def test_what_the_guarantees_name_exists():
    text = (ROOT / "docs" / "guarantees.md").read_text()
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", text)
    assert len(named) > 40
    for file, test in named:
        assert f"def {test}(" in (ROOT / "tests" / file).read_text(), (file, test)
    for model in re.findall(r"`(\w+\.pml)`", text):
        assert (ROOT / "tests" / "model" / model).exists()
