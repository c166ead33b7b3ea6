"""python benchmarks/clusters_graph.py: draws docs/distributed.svg, the tasks of a sort."""

from __future__ import annotations

from pathlib import Path

BLOCKS = 3
COLUMNS = ("block", "sorted", "sample", "bounds", "between", "cut", "pieces", "result")
TITLES = {
    "block": "a block",
    "sorted": "sort",
    "sample": "samples",
    "bounds": "bounds",
    "between": "what lies between",
    "cut": "exact cuts",
    "pieces": "pieces",
    "result": "bring together, sort",
}
WIDTH, HEIGHT, ACROSS, DOWN = 940, 300, 116, 84


def places(column: str) -> list[tuple[float, float]]:
    """Where the tasks of a column are."""
    n = {"bounds": 1, "cut": BLOCKS - 1, "pieces": BLOCKS * BLOCKS}.get(column, BLOCKS)
    x = 58 + COLUMNS.index(column) * ACROSS
    step = DOWN * BLOCKS / n
    return [(x, 44 + step * (i + 0.5)) for i in range(n)]


def edges() -> list[tuple[tuple[float, float], tuple[float, float]]]:
    at = {column: places(column) for column in COLUMNS}
    found = []
    for i in range(BLOCKS):
        found += [(at["block"][i], at["sorted"][i]), (at["sorted"][i], at["sample"][i])]
        found += [(at["sample"][i], at["bounds"][0]), (at["bounds"][0], at["between"][i])]
        found += [(at["between"][i], cut) for cut in at["cut"]]
        for j in range(BLOCKS):
            piece = at["pieces"][i * BLOCKS + j]
            found += [(at["cut"][k], piece) for k in (j - 1, j) if 0 <= k < BLOCKS - 1]
            found.append((piece, at["result"][j]))
    return found


def picture() -> str:
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    lines += [
        f'<line x1="{a:.0f}" y1="{b:.0f}" x2="{c:.0f}" y2="{d:.0f}" stroke="#b9c0c7"/>'
        for (a, b), (c, d) in edges()
    ]
    for column in COLUMNS:
        size = 6 if column == "pieces" else 11
        lines += [
            f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{size}" fill="#2b7a3d"/>'
            for x, y in places(column)
        ]
        x = places(column)[0][0]
        lines.append(f'<text x="{x:.0f}" y="26" text-anchor="middle">{TITLES[column]}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    (Path(__file__).parent.parent / "docs" / "distributed.svg").write_text(picture())
