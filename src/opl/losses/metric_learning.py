"""OPL as a loss of pytorch-metric-learning 2.x, for its miners, reducers, `MultipleLosses` and `CrossBatchMemory`.

Import this module by its full name: `opl.losses` does not import it, because the library needs only torch.

    from opl.losses.metric_learning import ProjectionMetricLoss
    loss = MultipleLosses([TripletMarginLoss(), ProjectionMetricLoss(gamma=0.5)], weights=[1, 0.5])
"""

from typing import Any

import torch
from torch import Tensor

from .._kernels.normalize import full_precision, unit_rows
from .._kernels.validate import as_vectors
from ..errors import LabelError, OptionError
from ..functional import FORM, GAMMA, IGNORE_INDEX, Form, check_options, orthogonal_projection

try:
    from pytorch_metric_learning.distances import CosineSimilarity
    from pytorch_metric_learning.losses import BaseMetricLossFunction, CrossBatchMemory
    from pytorch_metric_learning.reducers import MeanReducer, MultipleReducers
    from pytorch_metric_learning.utils.loss_and_miner_utils import convert_to_pairs
except ImportError as error:
    raise ImportError(
        "opl.losses.metric_learning needs pytorch-metric-learning, which is not installed: pip install "
        "'pytorch-metric-learning>=2.9,<3', or use opl.OrthogonalProjectionLoss, which needs torch alone."
    ) from error

Pairs = tuple[Tensor, Tensor]


class SafeCosineSimilarity(CosineSimilarity):  # type: ignore[misc,unused-ignore]
    """Cosine similarity in which a zero embedding has cosine 0 and no gradient, as everywhere in OPL."""

    def normalize(self, embeddings: Tensor, dim: int = 1, **options: Any) -> Tensor:
        """Scale the rows to length 1; zero rows stay zero."""
        return unit_rows(embeddings)


class ProjectionMetricLoss(BaseMetricLossFunction):  # type: ignore[misc,unused-ignore]
    """OPL, `(1 - s) + gamma * d`, called as `loss(embeddings, labels, indices_tuple, ref_emb, ref_labels)`.

    s is the mean cosine over positive pairs, d the mean over negative pairs. By default these are all pairs of
    different samples, and the value is that of `opl.orthogonal_projection`. With `indices_tuple` they are the pairs of
    a miner (a triplet is one positive and one negative pair; a pair that is listed twice counts twice). With `ref_emb`
    they are the pairs of a batch row and a reference row. A mean over no pairs is 0, so without a positive pair the
    loss is 1 + gamma * d.

    The parts `"pos_loss"`, `1 - cos` of each positive pair, and `"neg_loss"`, gamma times the summand of d of each
    negative pair, go to the reducer, which is a `MeanReducer` by default; any other one changes the means above.
    `form="abs_mean"` has no summand of d: that part is reduced already.

    Args:
        gamma: weight of d relative to s.
        form: how d is computed: `"mean_abs"`, `"abs_mean"` or `"mean"`; see `opl.orthogonal_projection`.
        ignore_index: pairs with a row of this label, in the batch or the reference, are excluded.
        options: the keyword arguments of `BaseMetricLossFunction`: `reducer`, `embedding_regularizer`,
            `embedding_reg_weight`, and `distance`, which must be a `CosineSimilarity`.

    Example:
        >>> loss = ProjectionMetricLoss()
        >>> loss(torch.tensor([[2.0, 0.0], [3.0, 0.0], [1.0, 1.0]]), torch.tensor([7, 7, 2]))
        tensor(0.3536)
    """

    def __init__(
        self, *, gamma: float = GAMMA, form: Form = FORM, ignore_index: int = IGNORE_INDEX, **options: Any
    ) -> None:
        check_options(gamma, form, ignore_index)
        super().__init__(**options)
        if not isinstance(self.distance, CosineSimilarity):
            raise OptionError(
                f"distance is {type(self.distance).__name__}, but OPL needs cosines: leave it out, or pass a "
                "CosineSimilarity."
            )
        self.gamma, self.form, self.ignore_index = gamma, form, ignore_index
        self.add_to_recordable_attributes(list_of_names=["gamma"], is_stat=False)

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor | None = None,
        indices_tuple: tuple[Tensor, ...] | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
    ) -> Tensor:
        """Return the scalar loss of (B, D) embeddings, in fp32 or fp64."""
        if indices_tuple is None and (labels is None or (ref_emb is not None and ref_labels is None)):
            raise LabelError(
                "there are no pairs: pass labels (and ref_labels with ref_emb), or the pairs as indices_tuple."
            )
        embeddings = as_vectors(embeddings, name="embeddings")
        if ref_emb is not None:
            ref_emb = as_vectors(ref_emb, embeddings.shape[1], name="ref_emb").to(embeddings.dtype)
        with full_precision(embeddings):
            value: Tensor = super().forward(embeddings, labels, indices_tuple, ref_emb, ref_labels)
        return value

    def compute_loss(
        self,
        embeddings: Tensor,
        labels: Tensor | None,
        indices_tuple: tuple[Tensor, ...] | None,
        ref_emb: Tensor,
        ref_labels: Tensor | None,
    ) -> dict[str, dict[str, Any]]:
        """Return the two parts of the loss, for the reducer."""
        within = indices_tuple is None and ref_emb is embeddings and ref_labels is labels
        if within and labels is not None and self._averages():  # then no list of all pairs is needed
            projection = orthogonal_projection(embeddings, labels, form=self.form, ignore_index=self.ignore_index)
            return {"pos_loss": _reduced(1 - projection.same), "neg_loss": _reduced(self.gamma * projection.other)}
        first, positive, second, negative = convert_to_pairs(indices_tuple, labels, ref_labels)
        cosines = self.distance(embeddings, ref_emb)
        positives = self._counted((first, positive), labels, ref_labels)
        negatives = self._counted((second, negative), labels, ref_labels)
        return {"pos_loss": self._attraction(cosines, positives), "neg_loss": self._repulsion(cosines, negatives)}

    def _counted(self, pairs: Pairs, labels: Tensor | None, ref_labels: Tensor | None) -> Pairs:
        """Return the pairs without those of an ignored row."""
        rows, columns = pairs
        kept = torch.ones_like(rows, dtype=torch.bool)
        for ids, of in ((rows, labels), (columns, ref_labels)):
            if of is not None:
                kept &= of[ids] != self.ignore_index
        return rows[kept], columns[kept]

    def _attraction(self, cosines: Tensor, pairs: Pairs) -> dict[str, Any]:
        if not len(pairs[0]):
            return _reduced(1 + 0 * cosines.sum())
        return {"losses": 1 - cosines[pairs], "indices": pairs, "reduction_type": "pos_pair"}

    def _repulsion(self, cosines: Tensor, pairs: Pairs) -> dict[str, Any]:
        if not len(pairs[0]):
            return _reduced(0 * cosines.sum())
        values = cosines[pairs]
        if self.form == "abs_mean":
            return _reduced(self.gamma * values.mean().abs())
        values = values.abs() if self.form == "mean_abs" else values
        return {"losses": self.gamma * values, "indices": pairs, "reduction_type": "neg_pair"}

    def _averages(self) -> bool:
        """Return whether both parts are reduced by their mean, as by default."""
        if type(self.reducer) is not MultipleReducers:
            return False
        parts = (*self.reducer.reducers.values(), self.reducer.default_reducer)
        return all(type(part) is MeanReducer for part in parts)

    def get_default_distance(self) -> SafeCosineSimilarity:
        """Return the cosine similarity."""
        return SafeCosineSimilarity()

    def _sub_loss_names(self) -> list[str]:
        return ["pos_loss", "neg_loss"]


class ProjectionCrossBatchMemory(CrossBatchMemory):  # type: ignore[misc,unused-ignore]
    """A `CrossBatchMemory` for `ProjectionMetricLoss`: pairs between the batch and the last `memory_size` embeddings.

    The original accepts only losses that it lists by name; otherwise this class is the same.

    Example:
        >>> loss = ProjectionCrossBatchMemory(ProjectionMetricLoss(), embedding_size=64, memory_size=1024)
        >>> loss(torch.randn(8, 64), torch.arange(8) % 4).shape
        torch.Size([])
    """

    @staticmethod
    def supported_losses() -> list[str]:
        """Return the names of the losses that the original accepts, and that of ours."""
        return [*CrossBatchMemory.supported_losses(), ProjectionMetricLoss.__name__]


def _reduced(value: Tensor) -> dict[str, Any]:
    """Return one part of a loss that no reducer changes."""
    return {"losses": value, "indices": None, "reduction_type": "already_reduced"}
