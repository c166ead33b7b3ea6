"""Filters over a real picture: its edges, and the same picture sharper.

Each filter is an expression of shifted views, run in one pass without a temporary.  Needs
the extra ``examples`` (the picture comes with scikit-image).  Run it with
``python examples/image_filter.py [directory]``; it writes the pictures to the directory.
"""

import pathlib
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

import pyblitz as pb

Image = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


def picture() -> Image:
    """The cameraman, 512 x 512, grey."""
    try:
        from skimage import data
    except ImportError:
        raise SystemExit("this example needs the extra: pip install 'pyblitz[examples]'") from None
    camera: Any = data.camera  # has no types
    return np.asarray(camera())


def neighbours(image: Image) -> list[Floats]:
    """The picture shifted by one pixel in all directions, row by row, as views of one array;
    its border is repeated."""
    h, w = image.shape
    padded = np.pad(image.astype(np.float32), 1, mode="edge")
    return [padded[i : i + h, j : j + w] for i in range(3) for j in range(3)]


def edges(image: Image) -> Image:
    """How steep the brightness is at each pixel: the magnitude of Sobel's gradient."""
    nw, n, ne, w, _, e, sw, s, se = pb.par_iter(*neighbours(image))
    across = (ne + 2 * e + se) - (nw + 2 * w + sw)
    down = (sw + 2 * s + se) - (nw + 2 * n + ne)
    steepness = across.zip(down).map(lambda x, y: np.minimum(np.hypot(x, y), 255))
    outlines: Image = np.rint(steepness).astype(np.uint8).collect()  # here it is computed
    return outlines


def sharper(image: Image, amount: float = 1.5) -> Image:
    """An unsharp mask: what a blurred picture lacks is added ``amount`` times."""
    nw, n, ne, w, here, e, sw, s, se = pb.par_iter(*neighbours(image))
    blurred = (nw + ne + sw + se + 2 * (n + w + e + s) + 4 * here) / 16
    result = (here + amount * (here - blurred)).map(lambda v: np.minimum(np.maximum(v, 0), 255))
    sharpened: Image = np.rint(result).astype(np.uint8).collect()
    return sharpened


def main(directory: pathlib.Path | None = None) -> tuple[Image, Image, Image]:
    image = picture()
    outlines, sharp = edges(image), sharper(image)
    steep = pb.par_count_nonzero(outlines > 100)
    print(f"{image.shape[1]} x {image.shape[0]} pixels, {steep / image.size:.1%} on an edge")
    print(f"contrast {pb.par_std(image):.1f}, sharpened {pb.par_std(sharp):.1f}")
    if directory is not None:
        from skimage import io

        for name, made in [("edges", outlines), ("sharper", sharp)]:
            io.imsave(directory / f"{name}.png", made, check_contrast=False)
            print(f"wrote {directory / name}.png")
    return image, outlines, sharp


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path())
