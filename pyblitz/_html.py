"""What notebooks show: `_repr_html_` of lazy arrays and of `stats()`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# Of each activity; what a worker did besides was not the pool's.
COLOURS = {"busy": "#2b7a3d", "waiting": "#d9a514", "searching": "#c4551f", "sleeping": "#b9c0c7"}


def _escape(text: str) -> str:
    import html  # whose table of entities few programs need

    return html.escape(text)


def plan(lazy: object) -> str:
    """A lazy array, as it prints itself."""
    return f"<pre>{_escape(repr(lazy))}</pre>"


def _bar(times: Mapping[str, float], seconds: float) -> str:
    """How its time was divided, from left to right."""
    parts = "".join(
        f'<span style="display:inline-block;height:1em;width:{100 * times[what] / seconds:.2f}%;'
        f'background:{colour}" title="{what}: {times[what]:.6f} s"></span>'
        for what, colour in COLOURS.items()
    )
    return f'<div style="width:24em;white-space:nowrap;font-size:1em">{parts}</div>'


def bars(workers: Iterable[Any], seconds: float, remarks: Iterable[str]) -> str:
    """A row for each worker, and what there is to say besides."""
    legend = " ".join(
        f'<span style="color:{colour}">&#9632;</span> {what}' for what, colour in COLOURS.items()
    )
    rows = "".join(
        f"<tr><td>{_escape(w.name)}</td><td>{_bar(w._asdict(), seconds)}</td>"
        f"<td>{w.jobs}</td><td>{w.steals}</td></tr>"
        for w in workers
    )
    said = "".join(f"<li>{_escape(remark)}</li>" for remark in remarks)
    return (
        f"<table><caption>{seconds:.6f} s: {legend}</caption>"
        f"<thead><tr><th>worker</th><th>time</th><th>jobs</th><th>steals</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>" + (f"<ul>{said}</ul>" if said else "")
    )
