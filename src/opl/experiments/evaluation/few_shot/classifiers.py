"""Classifiers for few-shot episodes, each applied to all episodes at once: `f(support, labels, queries, way)`.

Support features are (E, n, D), their labels (E, n) or (n,) in 0 to way - 1, queries (E, q, D), and predictions (E, q).
Copies of a support image are ordinary rows. Episodes are processed in chunks: working memory is tens of MB for any
number of episodes, and about 256 MB if float32 features are so large that they need float64. Ties go to the first class
(in `nearest` and `cosine`, to the first row).
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from ...._kernels.validate import check_positive
from .checks import check_finite, check_support, not_finite_error
from .chunks import as_working_type, map_chunks, one_hot, predict
from .logistic import Fit, fit, float32_suffices, inner_products, warn_unconverged


def logistic(
    support: Tensor, labels: Tensor, queries: Tensor, way: int, *, C: float = 1.0, tol: float = 1e-5
) -> Tensor:
    """Multinomial logistic regression, as scikit-learn's `LogisticRegression(C=C)`: see `logistic_fit`.

    Args:
        support: (E, n, D).
        labels: (E, n) or (n,), from 0 to way - 1.
        queries: (E, q, D).
        way: number of classes.
        C: weight of the cross-entropy relative to the penalty.
        tol: allowed relative error of the weights.

    Example:
        >>> logistic(torch.tensor([[[0.0], [1.0]]]), torch.tensor([0, 1]), torch.tensor([[[0.2], [0.9]]]), way=2)
        tensor([[0, 1]])
    """
    C = _per_class(C, way)
    check_positive("tol", tol)
    left: list[int] = []

    def scores(mine: Tensor, own: Tensor, asked: Tensor) -> Tensor:
        found = fit(mine, own, way, C, tol)
        left.append(int(found.converged.logical_not().sum()))
        return torch.baddbmm(found.intercepts[:, None], asked, found.weights.mT)

    predictions = predict(scores, support, labels, queries, way)
    warn_unconverged(sum(left))
    return predictions


def logistic_fit(support: Tensor, labels: Tensor, way: int, *, C: float = 1.0, tol: float = 1e-5) -> Fit:
    """Minimize `½‖W‖² + C Σ cross-entropy` in each episode; the intercepts are not penalized and sum to 0.

    For two classes scikit-learn penalizes the difference w of the weights, `½‖w‖²`, and so does this function: W is
    ±w/2. Float32 features are processed in float32 if its rounding is negligible, otherwise in float64. Problems that
    converge slowly are solved by Newton's method; if that does not converge either, an `OplWarning` is issued.

    Args:
        support: (E, n, D).
        labels: (E, n) or (n,), from 0 to way - 1.
        way: number of classes.
        C: weight of the cross-entropy relative to the penalty.
        tol: allowed relative error of the weights.

    Example:
        >>> found = logistic_fit(torch.tensor([[[0.0], [1.0]]]), torch.tensor([0, 1]), way=2)
        >>> found.weights.flatten(), found.intercepts
        (tensor([-0.2223,  0.2223]), tensor([[ 0.1112, -0.1112]]))
    """
    C = _per_class(C, way)
    check_positive("tol", tol)
    labels, support = check_support(support, labels, way), support.detach()
    none = [fit(as_working_type(support[:0]), labels[:0], way, C, tol)]
    fits = map_chunks(lambda part: fit(as_working_type(support[part]), labels[part], way, C, tol), support, way)
    found = Fit(*(torch.cat(values) for values in zip(*(fits or none), strict=True)))
    warn_unconverged(int(found.converged.logical_not().sum()))
    return found


def prototypes(support: Tensor, labels: Tensor, queries: Tensor, way: int) -> Tensor:
    """Predict the class with the nearest mean (Euclidean).

    Example:
        >>> prototypes(torch.tensor([[[0.0], [1.0]]]), torch.tensor([0, 1]), torch.tensor([[[0.2], [0.9]]]), way=2)
        tensor([[0, 1]])
    """

    def scores(mine: Tensor, own: Tensor, asked: Tensor) -> Tensor:
        members = one_hot(own, way, mine.dtype)
        return _nearness(torch.bmm(members / members.sum(2, keepdim=True), mine), asked)

    return predict(scores, support, labels, queries, way)


def nearest(support: Tensor, labels: Tensor, queries: Tensor, way: int) -> Tensor:
    """Predict the class of the nearest support row (Euclidean).

    Example:
        >>> nearest(torch.tensor([[[0.0], [1.0]]]), torch.tensor([0, 1]), torch.tensor([[[0.2], [0.9]]]), way=2)
        tensor([[0, 1]])
    """
    return predict(lambda mine, _, asked: _nearness(mine, asked), support, labels, queries, way, by_row=True)


def cosine(support: Tensor, labels: Tensor, queries: Tensor, way: int) -> Tensor:
    """Predict the class of the support row with the highest cosine similarity, which is 0 for a row of zeros.

    Example:
        >>> support = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
        >>> cosine(support, torch.tensor([0, 1]), torch.tensor([[[5.0, 4.0], [0.1, 0.2]]]), way=2)
        tensor([[0, 1]])
    """

    def scores(mine: Tensor, own: Tensor, asked: Tensor) -> Tensor:
        return torch.bmm(asked, F.normalize(mine, dim=2).mT)

    return predict(scores, support, labels, queries, way, by_row=True)


def ridge(support: Tensor, labels: Tensor, queries: Tensor, way: int, *, alpha: float = 1.0) -> Tensor:
    """Ridge regression to 1 for the true class and -1 for the others, as scikit-learn's `RidgeClassifier(alpha)`.

    Args:
        support: (E, n, D).
        labels: (E, n) or (n,), from 0 to way - 1.
        queries: (E, q, D).
        way: number of classes.
        alpha: weight of the squared weights; the intercept is not penalized.

    Example:
        >>> ridge(torch.tensor([[[0.0], [1.0]]]), torch.tensor([0, 1]), torch.tensor([[[0.2], [0.9]]]), way=2)
        tensor([[0, 1]])
    """
    check_positive("alpha", alpha)

    def scores(mine: Tensor, own: Tensor, asked: Tensor) -> Tensor:
        return ridge_scores(mine, own, asked, way, alpha)

    return predict(scores, support, labels, queries, way)


def ridge_scores(support: Tensor, labels: Tensor, queries: Tensor, way: int, alpha: float) -> Tensor:
    """Return (E, q, way), the values of the ridge regressions at the queries.

    Args:
        support: (E, n, D), float32 or float64.
        labels: (E, n).
        queries: (E, q, D), of the same dtype.
        way: number of classes.
        alpha: weight of the squared weights.

    Example:
        >>> ridge_scores(torch.tensor([[[0.0], [1.0]]]), torch.tensor([[0, 1]]), torch.tensor([[[2.0]]]), 2, alpha=0.5)
        tensor([[[-1.5000,  1.5000]]])
    """
    mean, centered, gram = inner_products(support)
    check_finite(gram, support)
    wanted = 2 * one_hot(labels, way, torch.float64) - 1
    middle = wanted.mean(2, keepdim=True)
    system = gram.double() + alpha * torch.eye(gram.shape[1], dtype=torch.float64, device=gram.device)
    duals = torch.linalg.solve(system, (wanted - middle).mT).mT
    weights = torch.bmm(duals.to(centered), centered)
    values = torch.baddbmm(middle.mT.to(mean) - torch.bmm(mean, weights.mT), queries, weights.mT)
    rough = float32_suffices(gram, 1 / alpha).logical_not()
    if gram.dtype != torch.float64 and rough.any():
        again = ridge_scores(support[rough].double(), labels[rough], queries[rough].double(), way, alpha)
        values[rough] = again.to(values)
    return values


def sklearn_logistic(support: Tensor, labels: Tensor, queries: Tensor, way: int, *, C: float = 1.0) -> Tensor:
    """The reference: scikit-learn's logistic regression, one episode at a time, on one BLAS thread.

    More threads would make such small problems many times slower.

    Example:
        >>> support, queries = torch.tensor([[[0.0], [1.0]]]), torch.tensor([[[0.2], [0.9]]])
        >>> sklearn_logistic(support, torch.tensor([0, 1]), queries, way=2)
        tensor([[0, 1]])
    """
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    check_positive("C", C)

    def scores(mine: Tensor, own: Tensor, asked: Tensor) -> Tensor:
        if not (mine.sum() + asked.sum()).isfinite():
            raise not_finite_error(mine, asked)
        found = []
        for rows, ids, points in zip(mine.cpu().numpy(), own.cpu().numpy(), asked.cpu().numpy(), strict=True):
            model = LogisticRegression(C=C, max_iter=1000).fit(rows, ids)
            found.append(F.one_hot(torch.from_numpy(model.predict(points)), way))
        return torch.stack(found).to(mine)

    with threadpool_limits(1, user_api="blas"):
        return predict(scores, support, labels, queries, way, threaded=False)


def _per_class(C: float, way: int) -> float:
    """Return C relative to the penalty `½‖W‖²`: for two classes, `½‖w‖²` of the difference w equals `‖W‖²`."""
    return check_positive("C", C) / (2 if way == 2 else 1)


def _nearness(points: Tensor, queries: Tensor) -> Tensor:
    """Return (E, q, k): minus half the squared distances to points (E, k, D), up to a constant per query."""
    middle = points.mean(1, keepdim=True)
    away = points - middle  # otherwise large features that differ little would lose precision
    offset = torch.bmm(middle, away.mT) + away.square().sum(2)[:, None] / 2
    return torch.baddbmm(offset, queries, away.mT, beta=-1)


CLASSIFIERS: dict[str, Callable[..., Tensor]] = {
    "logistic": logistic,
    "prototypes": prototypes,
    "nearest": nearest,
    "cosine": cosine,
    "ridge": ridge,
    "scikit-learn": sklearn_logistic,
}
