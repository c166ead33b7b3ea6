"""tests/mutants.py takes hours to run whole; that its list fits the source is seen here."""

from __future__ import annotations

from mutants import MUTATIONS, ROOT, mutated


def test_each_mutation_changes_one_place() -> None:
    for mutation in MUTATIONS:
        source = (ROOT / "pyblitz" / mutation.file).read_text()
        assert mutated(source, mutation) != source, mutation.name


def test_each_mutation_names_tests_that_exist() -> None:
    for mutation in MUTATIONS:
        for name in mutation.tests.split():
            assert (ROOT / "tests" / name).is_file(), mutation.name


def test_no_mutation_stands_there_twice() -> None:
    assert len({m.name for m in MUTATIONS}) == len(MUTATIONS)
    assert len({(m.file, m.text, m.instead) for m in MUTATIONS}) == len(MUTATIONS)
