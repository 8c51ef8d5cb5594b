"""Unit features and the cosines of their pairs after every epoch, as an animated GIF: one column per model."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import FolderError, OptionError
from ..files import write_whole
from .cosines import OTHER, SAME, Cosines, bins, unit_features
from .figure import Figure, paper
from .points import Space, legend_handles, scatter
from .style import Array, print_label

if TYPE_CHECKING:
    from PIL.Image import Image

SIZE, DPI = (7.2, 5.2), 100  # inches, pixels per inch
STEP, HOLD = 120, 3000  # milliseconds that an epoch and the last epoch are shown
TOP = 0.22  # share of pairs at the top of the histograms; higher bars are clipped


def animate(models: Sequence[Sequence[Space]], target: Path) -> Path:
    """Write the animation from the features of each model, one `Space` per epoch, with the same number of epochs."""
    if not models or not models[0] or len({len(epochs) for epochs in models}) > 1:
        raise OptionError("the models to animate have different numbers of epochs: pass the same number, at least one.")
    first, *rest = _images(models)
    durations = [STEP] * len(rest) + [HOLD]
    data = io.BytesIO()
    first.save(data, format="GIF", save_all=True, append_images=rest, duration=durations, loop=0, optimize=True)
    try:
        write_whole(target, data.getvalue())
    except OSError as error:
        raise FolderError(f"cannot write {target} ({error.strerror}): choose another folder.") from error
    return target


def principal_axes(space: Space) -> Array:
    """Return (D, 2): the two principal axes of the unit features.

    Example:
        >>> axes = principal_axes(Space("CE", np.array([[2.0, 0, 0], [0, 3, 0]]), np.array([0, 1]), ("a", "b")))
        >>> np.abs(axes[:, 0]).round(3).tolist()
        [0.707, 0.707, 0.0]
    """
    units, _ = unit_features(space)
    axes: Array = np.linalg.svd(units - units.mean(axis=0), full_matrices=False)[2][:2].T
    return axes


def _images(models: Sequence[Sequence[Space]]) -> "list[Image]":
    """Draw the frames, all in the colors of the last frame, so that equal pixels stay equal and the file is small."""
    from PIL import Image

    bases, last = [principal_axes(epochs[-1]) for epochs in models], len(models[0])
    frames = [
        _frame(spaces, bases, f"epoch {index} of {last}") for index, spaces in enumerate(zip(*models, strict=True), 1)
    ]
    pixels = [Image.fromarray(_pixels(frame)) for frame in frames]
    palette = pixels[-1].quantize(method=Image.Quantize.FASTOCTREE)
    colors = np.reshape(palette.getpalette() or [], (-1, 3))
    colors[colors.sum(axis=1).argmax()] = 255  # the background, which quantization makes slightly gray
    palette.putpalette(colors.ravel().tolist())
    return [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pixels]


def _pixels(figure: Figure) -> Array:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def _frame(spaces: Sequence[Space], bases: Sequence[Array], title: str) -> Figure:
    """Draw an epoch: the unit features on the principal axes of the last epoch, and below, the cosines of all pairs."""
    import matplotlib.figure

    with paper():
        figure = matplotlib.figure.Figure(figsize=SIZE, dpi=DPI)
        shared: dict[str, Any] = {"sharex": "row", "sharey": "row", "height_ratios": (2.4, 1)}
        grid = figure.subplots(2, len(spaces), squeeze=False, **shared)
        figure.subplots_adjust(0.02, 0.16, 0.98, 0.925, hspace=0.2, wspace=0.08)
        figure.text(0.98, 0.95, title, ha="right", fontsize=11, family="monospace")
        pairs = [Cosines(space) for space in spaces]
        edges = bins(pairs)
        low = int(edges[0])
        for space, cosines, basis, (top, bottom) in zip(spaces, pairs, bases, grid.T, strict=True):
            units, labels = unit_features(space)
            scatter(top, units @ basis, labels)
            top.set(xlim=(-0.98, 0.98), ylim=(-0.8, 0.8), xticks=(), yticks=(), aspect="equal")
            top.spines[:].set(visible=True, color="0.85")
            top.set_title(print_label(space.label), loc="left", fontsize=12, fontweight="bold")
            same, other = cosines.shares(edges)
            for shares, shade, at, name in (
                (other, OTHER, 0.02, f"different classes: d {cosines.d:.2f}"),
                (same, SAME, 0.56, f"same class: s {cosines.s:.2f}"),
            ):
                bottom.stairs(shares, edges, fill=True, color=shade, alpha=0.6)
                bottom.text(at, 1.05, name, color=shade, transform=bottom.transAxes, fontweight="bold")
            bottom.set(xlim=(low, 1), ylim=(0, TOP), yticks=(), xlabel="cosine of two test images")
            bottom.set_xticks((low, (1 + low) / 2, 1), (f"{low}", f"{(1 + low) / 2:g}", "1"))
        handles = legend_handles(spaces[0].class_names)
        figure.legend(handles=handles, loc="lower center", ncols=len(handles), fontsize=8)
    return figure
