"""Actors without locks: counting words with jobs that carry a key.

Each letter of the alphabet has a counter of its own, an actor: a plain dict that only
jobs with this letter as their key touch.  Jobs of one key run one at a time and in order,
so nothing is locked.  Run it with ``python examples/word_count.py``.
"""

import re
import threading
from collections import Counter
from collections.abc import Iterable
from pydoc_data.topics import topics

import pyblitz as pb


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


def by_letter(words: Iterable[str]) -> dict[str, list[str]]:
    """What one page has to tell each actor."""
    messages: dict[str, list[str]] = {}
    for word in words:
        messages.setdefault(word[0], []).append(word)
    return messages


def count_with_actors(pages: Iterable[str], pool: pb.ThreadPool) -> Counter[str]:
    actors: dict[str, Counter[str]] = {}

    def tell(letter: str, words: list[str]) -> None:
        actors.setdefault(letter, Counter()).update(words)

    def read(page: str) -> list[object]:
        messages = by_letter(words_of(page))
        return [pool.submit(tell, k, words, affinity=k) for k, words in messages.items()]

    for page in [pool.submit(read, page) for page in pages]:
        for told in page.result():
            told.result()  # type: ignore[attr-defined]
    total: Counter[str] = Counter()
    for counter in actors.values():
        total.update(counter)
    return total


def count_with_a_lock(pages: Iterable[str], pool: pb.ThreadPool) -> Counter[str]:
    """The same with one counter, which all jobs fight for."""
    total: Counter[str] = Counter()
    lock = threading.Lock()

    def read(page: str) -> None:
        words = words_of(page)
        with lock:
            total.update(words)

    for page in [pool.submit(read, page) for page in pages]:
        page.result()
    return total


def main() -> tuple[Counter[str], Counter[str]]:
    pages = list(topics.values())  # Python's own manual
    with pb.ThreadPool(4) as pool:
        actors = count_with_actors(pages, pool)
        locked = count_with_a_lock(pages, pool)
    top = ", ".join(f"{word} {n}" for word, n in actors.most_common(5))
    print(f"{sum(actors.values())} words of {len(pages)} pages, most often: {top}")
    print(f"the same as with a lock: {actors == locked}")
    return actors, locked


if __name__ == "__main__":
    main()
