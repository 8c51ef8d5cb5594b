"""OPL in pytorch-metric-learning vs plain loops over pairs: its miners, reducers, regularizers and memory."""

import sys
from itertools import product

import pytest
import torch

from _said import refuses
from opl import orthogonal_projection
from opl.errors import FeatureError, LabelError, OptionError

pytest.importorskip("pytorch_metric_learning")

from pytorch_metric_learning import distances, losses, miners, reducers, regularizers
from pytorch_metric_learning.utils.loss_and_miner_utils import get_all_pairs_indices

from opl.losses.metric_learning import ProjectionCrossBatchMemory, ProjectionMetricLoss

pytestmark = pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")
FORMS = ("mean_abs", "abs_mean", "mean")


def batch(rows=10, seed=0, dim=4):
    chance = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, dim, dtype=torch.float64, generator=chance)
    return x.requires_grad_(), torch.randint(3, (rows,), generator=chance)


def cosine(a, b):
    return (a * b).sum() / (a.square().sum() * b.square().sum()).sqrt()


def over_pairs(positives, negatives, gamma=0.5, form="mean_abs"):
    """OPL of two lists of (a, b), a pair of vectors each."""
    same = [cosine(a, b) for a, b in positives]
    other = [cosine(a, b).abs() if form == "mean_abs" else cosine(a, b) for a, b in negatives]
    d = sum(other) / max(1, len(other))
    return 1 - sum(same) / max(1, len(same)) + gamma * (abs(d) if form == "abs_mean" else d)


def between(x, labels, ref, ref_labels, skip=(), ignored=-100):
    """The pairs of a row and a reference row, by label."""
    chosen = {True: [], False: []}
    for i, j in product(range(len(x)), range(len(ref))):
        if (i, j) not in skip and ignored not in (labels[i], ref_labels[j]):
            chosen[bool(labels[i] == ref_labels[j])].append((x[i], ref[j]))
    return chosen[True], chosen[False]


def own(rows):
    return {(i, i) for i in range(rows)}


def assert_same(got, expected, x):
    assert got.shape == ()
    torch.testing.assert_close(got, expected)
    gradients = [torch.autograd.grad(value, x, retain_graph=True)[0] for value in (got, expected)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("listed", [False, True])
def test_without_pairs_given_it_is_opl_over_all_pairs_of_different_samples(form, listed):
    x, labels = batch()
    loss = ProjectionMetricLoss(gamma=0.7, form=form)
    pairs = get_all_pairs_indices(labels) if listed else None
    expected = over_pairs(*between(x, labels, x, labels, skip=own(10)), 0.7, form)
    assert_same(loss(x, labels, pairs), expected, x)
    assert_same(orthogonal_projection(x, labels, gamma=0.7, form=form).loss, expected, x)


@pytest.mark.parametrize("form", FORMS)
def test_with_references_it_is_over_the_pairs_of_a_row_and_a_reference(form):
    (x, labels), (ref, ref_labels) = batch(), batch(7, seed=1)
    loss = ProjectionMetricLoss(form=form)
    expected = over_pairs(*between(x, labels, ref, ref_labels), form=form)
    got = loss(x, labels, ref_emb=ref, ref_labels=ref_labels)
    assert_same(got, expected, x)
    assert_same(got, expected, ref)
    same = loss(x, labels, ref_emb=x, ref_labels=labels.clone())  # a reference of its own: with itself too
    assert_same(same, over_pairs(*between(x, labels, x, labels), form=form), x)


def test_a_miner_chooses_the_pairs_and_a_triplet_is_two():
    x, labels = batch()
    found = miners.PairMarginMiner(pos_margin=0.9, neg_margin=0.1, distance=distances.CosineSimilarity())(x, labels)
    a, p, b, n = (each.tolist() for each in found)
    assert min(len(a), len(b)) > 0
    pairs = [[(x[i], x[j]) for i, j in zip(*each, strict=True)] for each in ((a, p), (b, n))]
    assert_same(ProjectionMetricLoss()(x, labels, found), over_pairs(*pairs), x)
    assert_same(ProjectionMetricLoss()(x, None, found), over_pairs(*pairs), x)  # pairs need no labels
    triplets = (torch.tensor([0, 0, 3]), torch.tensor([1, 2, 4]), torch.tensor([5, 5, 6]))
    a, p, n = (each.tolist() for each in triplets)
    pairs = [[(x[i], x[j]) for i, j in zip(a, other, strict=True)] for other in (p, n)]
    assert_same(ProjectionMetricLoss()(x, labels, triplets), over_pairs(*pairs), x)


def test_multiple_losses_adds_it_with_its_weight():
    x, labels = batch()
    both = losses.MultipleLosses([losses.ContrastiveLoss(), ProjectionMetricLoss()], weights=[1, 0.3])
    projection = over_pairs(*between(x, labels, x, labels, skip=own(10)))
    assert_same(both(x, labels), losses.ContrastiveLoss()(x, labels) + 0.3 * projection, x)


def test_the_memory_pairs_each_batch_with_all_that_it_holds_and_no_row_with_itself():
    memory = ProjectionCrossBatchMemory(ProjectionMetricLoss(), embedding_size=4, memory_size=12)
    held, held_labels, start = torch.zeros(12, 4, dtype=torch.float64), torch.zeros(12, dtype=torch.long), 0
    for step in range(4):  # the third batch begins to overwrite the first
        x, labels = batch(5, seed=step)
        places = [(start + i) % 12 for i in range(5)]
        held[places], held_labels[places] = x.detach(), labels
        filled = min(12, 5 * (step + 1))
        skip = {(i, place) for i, place in enumerate(places)}
        pairs = between(x, labels, held[:filled], held_labels[:filled], skip=skip)
        assert min(map(len, pairs)) > 0
        assert_same(memory(x, labels), over_pairs(*pairs), x)
        start = (start + 5) % 12


def test_rows_to_ignore_are_in_no_pair():
    (x, labels), (ref, ref_labels) = batch(), batch(7, seed=1)
    labels[3], ref_labels[2] = -100, -100
    within = over_pairs(*between(x, labels, x, labels, skip=own(10)))
    assert_same(ProjectionMetricLoss()(x, labels), within, x)
    across = over_pairs(*between(x, labels, ref, ref_labels))
    assert_same(ProjectionMetricLoss()(x, labels, ref_emb=ref, ref_labels=ref_labels), across, x)
    other = over_pairs(*between(x, labels, ref, ref_labels, ignored=1))
    assert_same(ProjectionMetricLoss(ignore_index=1)(x, labels, ref_emb=ref, ref_labels=ref_labels), other, x)


def test_a_reducer_is_given_the_loss_of_each_pair():
    x, labels = batch()
    positives, negatives = between(x, labels, x, labels, skip=own(10))
    far = [1 - cosine(a, b) for a, b in positives if 1 - cosine(a, b) > 0.4]
    near = [0.5 * abs(cosine(a, b)) for a, b in negatives if 0.5 * abs(cosine(a, b)) > 0.4]
    assert len(positives) > len(far) > 0
    assert len(negatives) > len(near) > 0
    got = ProjectionMetricLoss(reducer=reducers.ThresholdReducer(low=0.4))(x, labels)
    assert_same(got, sum(far) / len(far) + sum(near) / len(near), x)
    kept = ProjectionMetricLoss(reducer=reducers.DoNothingReducer())(x, labels)
    assert kept["pos_loss"]["losses"].shape == (len(positives),)
    assert kept["neg_loss"]["losses"].shape == (len(negatives),)
    explicit = ProjectionMetricLoss(reducer=reducers.MeanReducer())(x, labels)
    assert_same(explicit, over_pairs(positives, negatives), x)


def test_a_regularizer_of_the_embeddings_is_added():
    x, labels = batch()
    loss = ProjectionMetricLoss(embedding_regularizer=regularizers.LpRegularizer(), embedding_reg_weight=0.1)
    lengths = sum(row.square().sum().sqrt() for row in x) / 10
    assert_same(loss(x, labels), over_pairs(*between(x, labels, x, labels, skip=own(10))) + 0.1 * lengths, x)


@pytest.mark.parametrize("listed", [False, True])
def test_zero_rows_half_precision_and_missing_kinds_of_pairs_are_defined(listed):
    ref = (torch.eye(4)[:3], torch.tensor([5, 6, 7])) if listed else (None, None)
    x = torch.zeros(4, 4, dtype=torch.half, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        got = ProjectionMetricLoss()(x, torch.tensor([5, 5, 6, 6]), None, *ref)
    got.backward()
    assert (got.dtype, got.item(), x.grad.any().item()) == (torch.float32, 1.0, False)
    x = torch.tensor([[3.0, 4.0, 0.0, 0.0]], requires_grad=True)
    expected = {False: 1.0, True: 1 + 0.5 * (0.6 + 0.8) / 3}[listed]  # no positive pair
    assert ProjectionMetricLoss()(x, torch.tensor([9]), None, *ref).item() == pytest.approx(expected)
    alike = ProjectionMetricLoss()(x.expand(2, 4), torch.tensor([5, 5]))  # no negative pair
    assert alike.item() == pytest.approx(0, abs=1e-6)


X, Y = torch.randn(4, 3), torch.tensor([0, 1, 0, 1])
BAD = {
    "a distance that is no cosine": (
        lambda: ProjectionMetricLoss(distance=distances.LpDistance()),
        OptionError,
        ["LpDistance", "CosineSimilarity"],
    ),
    "an unknown form": (lambda: ProjectionMetricLoss(form="abs"), OptionError, ["did you mean"]),
    "neither labels nor pairs": (lambda: ProjectionMetricLoss()(X), LabelError, ["labels", "indices_tuple"]),
    "references without labels": (lambda: ProjectionMetricLoss()(X, Y, ref_emb=X), LabelError, ["ref_labels"]),
    "references of another width": (
        lambda: ProjectionMetricLoss()(X, Y, ref_emb=X[:, :2], ref_labels=Y),
        OptionError,
        ["ref_emb have 2 numbers"],
    ),
    "integers": (lambda: ProjectionMetricLoss()(X.long(), Y), FeatureError, ["embeddings are torch.int64"]),
}

test_invalid_input_is_refused_in_one_sentence = refuses(BAD)


def test_a_missing_package_raises_with_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytorch_metric_learning.distances", None)
    monkeypatch.delitem(sys.modules, "opl.losses.metric_learning")
    monkeypatch.delattr("opl.losses.metric_learning")
    with pytest.raises(ImportError, match=r"pip install 'pytorch-metric-learning>=2.9,<3', or use opl\.Orth"):
        import opl.losses.metric_learning  # noqa: F401
