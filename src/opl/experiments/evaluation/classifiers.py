"""Classifiers for few-shot episodes, each applied to all episodes at once: `f(support, labels, queries, way)`.

Support features are (E, n, D), their labels (E, n) or (n,) in 0 to way - 1, queries (E, q, D), and predictions (E, q).
Copies of a support image are ordinary rows. Episodes are processed in chunks: working memory is tens of MB for any
number of episodes, and about 256 MB if float32 features are so large that they need float64. Ties go to the first class
(in `nearest` and `cosine`, to the first row).
"""

import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor
from torch.nn import functional as F

from ...errors import OplWarning
from .logistic import fit, inner_products, not_finite_error, one_hot

WORK_BYTES = 40 * 2**20  # of all running chunks, in their dtype; features that need float64 take five times more
WORKERS = 6
TIE = 32  # multiples of the machine epsilon by which tied scores may differ

Scores = Callable[[Tensor, Tensor, Tensor], Tensor]
_lock = threading.Lock()


def logistic(
    support: Tensor, labels: Tensor, queries: Tensor, way: int, *, C: float = 1.0, tol: float = 1e-5
) -> Tensor:
    """Predict by multinomial logistic regression, like scikit-learn's `LogisticRegression(C=C)`; `fit` explains C, tol.

    An `OplWarning` is issued for problems that do not converge.

    Example:
        >>> logistic(torch.tensor([[[0.0], [1.0]]]), torch.tensor([0, 1]), torch.tensor([[[0.2], [0.9]]]), way=2)
        tensor([[0, 1]])
    """
    unconverged: list[int] = []

    def scores(rows: Tensor, ids: Tensor, points: Tensor) -> Tensor:
        result = fit(rows, ids, way, C, tol)
        unconverged.append(int(result.converged.logical_not().sum()))
        return torch.baddbmm(result.intercepts[:, None], points, result.weights.mT)

    predictions = predict(scores, support, labels, queries, way)
    if any(unconverged):
        warnings.warn(
            f"{sum(unconverged)} logistic regressions did not converge, so their predictions may be wrong: divide the "
            "features by their norm, or use a smaller C.",
            OplWarning,
            stacklevel=2,
        )
    return predictions


def prototypes(support: Tensor, labels: Tensor, queries: Tensor, way: int) -> Tensor:
    """Predict the class with the nearest mean (Euclidean).

    Example:
        >>> prototypes(torch.tensor([[[0.0], [1.0]]]), torch.tensor([0, 1]), torch.tensor([[[0.2], [0.9]]]), way=2)
        tensor([[0, 1]])
    """

    def scores(rows: Tensor, ids: Tensor, points: Tensor) -> Tensor:
        members = one_hot(ids, way, rows.dtype)
        return _nearness(torch.bmm(members / members.sum(2, keepdim=True), rows), points)

    return predict(scores, support, labels, queries, way)


def nearest(support: Tensor, labels: Tensor, queries: Tensor, way: int) -> Tensor:
    """Predict the class of the nearest support row (Euclidean).

    Example:
        >>> nearest(torch.tensor([[[0.0], [1.0]]]), torch.tensor([0, 1]), torch.tensor([[[0.2], [0.9]]]), way=2)
        tensor([[0, 1]])
    """
    return predict(lambda rows, _, points: _nearness(rows, points), support, labels, queries, way, by_row=True)


def _nearness(centers: Tensor, queries: Tensor) -> Tensor:
    """Return (E, q, k): minus half the squared distances to centers (E, k, D), up to a constant per query."""
    mean = centers.mean(1, keepdim=True)
    centered = centers - mean  # otherwise large features that differ little would lose precision
    offset = torch.bmm(mean, centered.mT) + centered.square().sum(2)[:, None] / 2
    return torch.baddbmm(offset, queries, centered.mT, beta=-1)


def cosine(support: Tensor, labels: Tensor, queries: Tensor, way: int) -> Tensor:
    """Predict the class of the support row with the highest cosine similarity, which is 0 for a row of zeros.

    Example:
        >>> support = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
        >>> cosine(support, torch.tensor([0, 1]), torch.tensor([[[5.0, 4.0], [0.1, 0.2]]]), way=2)
        tensor([[0, 1]])
    """

    def scores(rows: Tensor, ids: Tensor, points: Tensor) -> Tensor:
        return torch.bmm(points, F.normalize(rows, dim=2).mT)

    return predict(scores, support, labels, queries, way, by_row=True)


def ridge(support: Tensor, labels: Tensor, queries: Tensor, way: int, *, alpha: float = 1.0) -> Tensor:
    """Predict by ridge regression to 1 for the true class and -1 for the others, like `RidgeClassifier(alpha)`.

    `alpha` multiplies the squared weights; the intercept is not penalized.

    Example:
        >>> ridge(torch.tensor([[[0.0], [1.0]]]), torch.tensor([0, 1]), torch.tensor([[[0.2], [0.9]]]), way=2)
        tensor([[0, 1]])
    """
    return predict(lambda x, ids, points: ridge_scores(x, ids, points, way, alpha), support, labels, queries, way)


def ridge_scores(support: Tensor, labels: Tensor, queries: Tensor, way: int, alpha: float) -> Tensor:
    """Return (E, q, way), the values of the ridge regressions at the queries, computed in float64.

    Example:
        >>> ridge_scores(torch.tensor([[[0.0], [1.0]]]), torch.tensor([[0, 1]]), torch.tensor([[[2.0]]]), 2, alpha=0.5)
        tensor([[[-1.5000,  1.5000]]], dtype=torch.float64)
    """
    mean, centered, gram = inner_products(support.double())
    targets = 2 * one_hot(labels, way, torch.float64) - 1
    offset = targets.mean(2, keepdim=True)
    system = gram + alpha * torch.eye(gram.shape[1], dtype=torch.float64, device=gram.device)
    duals = torch.linalg.solve_ex(system, (targets - offset).mT)[0].mT
    weights = torch.bmm(duals, centered)
    return torch.baddbmm(offset.mT - torch.bmm(mean, weights.mT), queries.double(), weights.mT)


def sklearn_logistic(support: Tensor, labels: Tensor, queries: Tensor, way: int, *, C: float = 1.0) -> Tensor:
    """Predict by scikit-learn's logistic regression, the reference: one episode at a time, on one BLAS thread.

    More threads would make such small problems many times slower.

    Example:
        >>> support, queries = torch.tensor([[[0.0], [1.0]]]), torch.tensor([[[0.2], [0.9]]])
        >>> sklearn_logistic(support, torch.tensor([0, 1]), queries, way=2)
        tensor([[0, 1]])
    """
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    def scores(rows: Tensor, ids: Tensor, points: Tensor) -> Tensor:
        if not (rows.sum() + points.sum()).isfinite():
            raise not_finite_error(rows, points)
        predictions = []
        for x, y, query in zip(rows.cpu().numpy(), ids.cpu().numpy(), points.cpu().numpy(), strict=True):
            model = LogisticRegression(C=C, max_iter=1000).fit(x, y)
            predictions.append(F.one_hot(torch.from_numpy(model.predict(query)), way))
        return torch.stack(predictions).to(rows)

    with threadpool_limits(1, user_api="blas"):
        return predict(scores, support, labels, queries, way, threaded=False)


CLASSIFIERS: dict[str, Callable[..., Tensor]] = {
    "logistic": logistic,
    "prototypes": prototypes,
    "nearest": nearest,
    "cosine": cosine,
    "ridge": ridge,
    "scikit-learn": sklearn_logistic,
}


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
    """Return (E, q): the class with the highest score; ties go to the first.

    `scores` maps support (e, n, D), labels (e, n) and queries (e, q, D) to (e, q, way). With `by_row` it maps to
    (e, q, n): its values belong to the support rows, whose classes are then predicted.

    On the CPU each chunk of the episodes uses one thread, and as many chunks run in parallel as torch has threads (at
    most six): threads that share each small operation would mostly wait for each other. Without `threaded`, one chunk
    runs at a time.
    """
    labels = labels.to(support.device).long().expand(support.shape[:2])
    predictions = torch.zeros(queries.shape[:2], dtype=torch.long, device=support.device)
    if not predictions.numel():
        return predictions

    @torch.no_grad()  # in the worker thread
    def work(part: slice) -> None:
        rows = support[part] if support.dtype == torch.float64 else support[part].float()
        values = scores(rows, labels[part], queries[part].to(rows))
        if not values.isfinite().all():
            raise not_finite_error(support[part], queries[part])
        best = first_best(values)
        predictions[part] = labels[part].gather(1, best) if by_row else best

    if support.device.type != "cpu":
        for part in _chunks(support, way, queries.shape[1], workers=1):
            work(part)
        return predictions
    with _lock:
        threads = torch.get_num_threads()
        workers = min(threads, WORKERS) if threaded else 1
        torch.set_num_threads(1)
        try:
            with ThreadPoolExecutor(workers) as pool:
                list(pool.map(work, _chunks(support, way, queries.shape[1], workers)))
        finally:
            torch.set_num_threads(threads)
    return predictions


def _chunks(support: Tensor, way: int, queries: int, workers: int) -> list[slice]:
    """Divide the episodes so that all running chunks together fit into `WORK_BYTES`."""
    count, rows, dim = support.shape
    numbers = rows * (dim + rows + 16 * way) + way * dim + queries * (rows + way)
    limit = WORK_BYTES // max(2, workers) // (numbers * (8 if support.dtype == torch.float64 else 4))
    size = max(1, min(limit, -(-count // workers)))
    return [slice(start, start + size) for start in range(0, count, size)]


def first_best(scores: Tensor) -> Tensor:
    """Return the index of the highest score in each row, the first if several are equal up to rounding.

    Example:
        >>> first_best(torch.tensor([[1.0, 3.0, 3.0000002]]))
        tensor([1])
    """
    slack = TIE * torch.finfo(scores.dtype).eps * scores.abs().amax(-1, keepdim=True)
    return (scores >= scores.amax(-1, keepdim=True) - slack).to(torch.uint8).argmax(-1)
