"""Episodes worked on in portions: a bound on the memory, a thread for each portion, and ties."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

from .checks import check_queries, check_support, not_finite_error

WORK_BYTES = 40 * 2**20  # of all portions at work, in their own type; float64 for large features takes five times more
WORKERS = 6
TIE = 32  # roundings by which scores may differ and still be equal

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
    """(E, q) the class of the highest score, the first of equals.

    Args:
        scores: of support (e, n, D), labels (e, n) and queries (e, q, D): (e, q, way), or (e, q, n) if `by_row`.
        support: (E, n, D).
        labels: (E, n) or (n,).
        queries: (E, q, D).
        way: number of classes.
        by_row: scores are those of the support rows, and the class is the row's.
        threaded: several portions at once.
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
    """What `work` answers for each portion of the episodes, without gradients.

    On the CPU a portion has one thread, and as many are at work as torch has threads (six at most): threads that share
    each small operation would spend their time waiting for each other.

    Args:
        work: of a slice of the episodes.
        support: (E, n, D).
        way: number of classes.
        queries: of each episode.
        threaded: several portions at once.

    Example:
        >>> map_chunks(lambda part: part, torch.zeros(3, 5000, 4096), way=5)
        [slice(0, 1, None), slice(1, 2, None), slice(2, 3, None)]
    """

    @torch.no_grad()  # in the thread that works
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
    """Of `count` things, at most so many (and one at least) in each.

    Example:
        >>> slices(5, most=3)
        [slice(0, 3, None), slice(3, 6, None)]
    """
    size = max(1, most)
    return [slice(start, start + size) for start in range(0, count, size)]


def first_best(scores: Tensor) -> Tensor:
    """The index of the highest score of each row, and the first where several are equal but for rounding.

    Example:
        >>> first_best(torch.tensor([[1.0, 3.0, 3.0000002]]))
        tensor([1])
    """
    slack = TIE * torch.finfo(scores.dtype).eps * scores.abs().amax(-1, keepdim=True)
    return (scores >= scores.amax(-1, keepdim=True) - slack).to(torch.uint8).argmax(-1)


def as_working_type(x: Tensor) -> Tensor:
    """Float32, or float64 where it is that already."""
    return x if x.dtype == torch.float64 else x.float()


def one_hot(labels: Tensor, way: int, dtype: torch.dtype) -> Tensor:
    """(E, way, n) 1 where the row is of the class, from (E, n)."""
    return (labels[:, None] == torch.arange(way, device=labels.device)[:, None]).to(dtype)


def _portions(support: Tensor, way: int, queries: int, workers: int) -> list[slice]:
    count, rows, dim = support.shape
    numbers = rows * (dim + rows + 16 * way) + way * dim + queries * (rows + way)
    fitting = WORK_BYTES // max(2, workers) // (numbers * (8 if support.dtype == torch.float64 else 4))
    return slices(count, min(fitting, -(-count // workers)))
