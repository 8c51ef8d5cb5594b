"""Processing of episodes in chunks: bounded memory, one thread per chunk, and tie-breaking."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

from .checks import check_queries, check_support, not_finite_error

WORK_BYTES = 40 * 2**20  # of all running chunks, in their own dtype; features that need float64 take five times more
WORKERS = 6
TIE = 32  # multiples of the machine epsilon by which tied scores may differ

Scores = Callable[[Tensor, Tensor, Tensor], Tensor]
Answer = TypeVar("Answer")
_one_at_a_time = threading.Lock()


def predict(
    scores: Scores,
    support: Tensor,
    labels: Tensor,
    queries: Tensor,
    way: int,
    *,
    by_row: bool = False,
    threaded: bool = True,
) -> Tensor:
    """Return (E, q): the class with the highest score, or the first of equals.

    Args:
        scores: maps support (e, n, D), labels (e, n) and queries (e, q, D) to (e, q, way), or (e, q, n) if `by_row`.
        support: (E, n, D).
        labels: (E, n) or (n,).
        queries: (E, q, D).
        way: number of classes.
        by_row: whether scores are those of the support rows, whose classes are then predicted.
        threaded: process several chunks at once.
    """
    labels = check_support(support, labels, way)
    check_queries(support, queries)
    found = torch.zeros(queries.shape[:2], dtype=torch.long, device=support.device)
    if not found.numel():
        return found

    def work(part: slice) -> None:
        mine = as_working_type(support[part])
        values = scores(mine, labels[part], queries[part].to(mine))
        if not values.isfinite().all():
            raise not_finite_error(support[part], queries[part])
        best = first_best(values)
        found[part] = labels[part].gather(1, best) if by_row else best

    map_chunks(work, support, way, queries.shape[1], threaded=threaded)
    return found


def map_chunks(
    work: Callable[[slice], Answer], support: Tensor, way: int, queries: int = 0, *, threaded: bool = True
) -> list[Answer]:
    """Return the results of `work` for each chunk of the episodes, without gradients.

    On the CPU each chunk has one thread, and as many chunks run at once as torch has threads (at most six): threads
    that share each small operation would mostly wait for each other.

    Args:
        work: called with a slice of the episodes.
        support: (E, n, D).
        way: number of classes.
        queries: number of queries per episode.
        threaded: process several chunks at once.

    Example:
        >>> map_chunks(lambda part: part, torch.zeros(3, 5000, 4096), way=5)
        [slice(0, 1, None), slice(1, 2, None), slice(2, 3, None)]
    """

    @torch.no_grad()  # in the worker thread
    def quietly(part: slice) -> Answer:
        return work(part)

    if support.device.type != "cpu":
        return [quietly(part) for part in _portions(support, way, queries, workers=1)]
    with _one_at_a_time:
        threads = torch.get_num_threads()
        workers = min(threads, WORKERS) if threaded else 1
        torch.set_num_threads(1)
        try:
            with ThreadPoolExecutor(workers) as pool:
                return list(pool.map(quietly, _portions(support, way, queries, workers)))
        finally:
            torch.set_num_threads(threads)


def slices(count: int, most: int) -> list[slice]:
    """Divide `count` items into slices of at most `most` (and at least one) items.

    Example:
        >>> slices(5, most=3)
        [slice(0, 3, None), slice(3, 6, None)]
    """
    size = max(1, most)
    return [slice(start, start + size) for start in range(0, count, size)]


def first_best(scores: Tensor) -> Tensor:
    """Return the index of the highest score in each row, the first if several are equal up to rounding.

    Example:
        >>> first_best(torch.tensor([[1.0, 3.0, 3.0000002]]))
        tensor([1])
    """
    slack = TIE * torch.finfo(scores.dtype).eps * scores.abs().amax(-1, keepdim=True)
    return (scores >= scores.amax(-1, keepdim=True) - slack).to(torch.uint8).argmax(-1)


def as_working_type(x: Tensor) -> Tensor:
    """Convert to float32, unless the tensor is float64."""
    return x if x.dtype == torch.float64 else x.float()


def one_hot(labels: Tensor, way: int, dtype: torch.dtype) -> Tensor:
    """Return (E, way, n), 1 where the row belongs to the class, from labels (E, n)."""
    return (labels[:, None] == torch.arange(way, device=labels.device)[:, None]).to(dtype)


def _portions(support: Tensor, way: int, queries: int, workers: int) -> list[slice]:
    count, rows, dim = support.shape
    numbers = rows * (dim + rows + 16 * way) + way * dim + queries * (rows + way)
    fitting = WORK_BYTES // max(2, workers) // (numbers * (8 if support.dtype == torch.float64 else 4))
    return slices(count, min(fitting, -(-count // workers)))
