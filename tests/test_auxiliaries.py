"""The losses beside cross-entropy (center, OLE, HNC, perpetual, distillation) against answers found another way."""

import doctest
import importlib
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from _gloo import together
from _said import says
from opl import errors
from opl.losses.center import CenterLoss, center, update_centers
from opl.losses.distillation import DistillationProjectionLoss, distillation_projection
from opl.losses.negative_cam import NegativeCAMLoss, class_activation_maps, negative_cam
from opl.losses.ole import OLELoss, ole
from opl.losses.perpetual import PerpetualProjectionLoss, perpetual

CLASSES, DIM = 5, 6


def batch(rows=12, dim=DIM, classes=CLASSES):
    return torch.randn(rows, dim, dtype=torch.float64), torch.randint(0, classes, (rows,))


def gradient_of(loss, x):
    x = x.detach().clone().requires_grad_()
    return torch.autograd.grad(loss(x), x)[0]


def cosine(a, b):
    return (a * b).sum() / (a.square().sum().sqrt() * b.square().sum().sqrt())


# Center loss


def test_center_is_half_the_squared_distance_to_the_own_center():
    features, labels = batch()
    centers = torch.randn(CLASSES, DIM, dtype=torch.float64)
    distances = [
        sum((features[i, d] - centers[labels[i], d]) ** 2 for d in range(DIM)) / 2 for i in range(len(features))
    ]
    torch.testing.assert_close(center(features, labels, centers), sum(distances) / len(distances))


def test_centers_move_by_the_rule_of_the_paper():
    centers = torch.tensor([[1.0, 0.0], [2.0, 2.0], [5.0, 5.0]])
    features = torch.tensor([[4.0, 3.0], [4.0, 6.0], [4.0, -2.0]])
    labels = torch.tensor([0, 0, 1])
    # class 0: two samples, (1 - 4 + 1 - 4, 0 - 3 + 0 - 6) / 3 = (-2, -3); class 1: one, (-2, 4) / 2; class 2: none
    expected = torch.tensor([[2.0, 1.5], [2.5, 1.0], [5.0, 5.0]])
    torch.testing.assert_close(update_centers(centers, features, labels, alpha=0.5), expected)
    torch.testing.assert_close(update_centers(centers, features, labels, alpha=0.0), centers)


def test_centers_move_in_training_after_the_loss_has_used_the_old_ones():
    loss = CenterLoss(CLASSES, DIM)
    features, labels = batch()
    features = features.float().requires_grad_()
    before = loss.centers.clone()
    value = loss(features, labels)
    torch.testing.assert_close(value, center(features, labels, before))
    torch.testing.assert_close(loss.centers, update_centers(before, features.detach(), labels))
    assert not torch.equal(loss.centers, before)
    assert not loss.centers.requires_grad
    value.backward()  # the move has not spoilt it
    torch.testing.assert_close(features.grad, (features.detach() - before[labels]) / len(labels))


def test_centers_stay_in_evaluation_and_without_gradients():
    loss = CenterLoss(CLASSES, DIM)
    features, labels = batch()
    before = loss.centers.clone()
    with torch.no_grad():
        loss(features, labels)
    loss.eval()(features, labels)
    assert torch.equal(loss.centers, before)


def test_neither_the_weight_nor_an_optimizer_nor_loss_scaling_touches_the_centers():
    features, labels = batch()
    ends = []
    for weight in (0.0, 1.0, 65536.0):
        torch.manual_seed(0)
        loss = CenterLoss(CLASSES, DIM)
        assert not list(loss.parameters())
        (weight * loss(features.float().requires_grad_(), labels)).backward()
        ends.append(loss.centers)
    assert torch.equal(ends[0], ends[1])
    assert torch.equal(ends[0], ends[2])


def test_centers_stay_single_precision_with_half_features_and_are_kept_in_a_checkpoint():
    loss = CenterLoss(CLASSES, DIM)
    features, labels = batch()
    loss(features.half(), labels)
    loss(features.bfloat16(), labels)
    assert loss.centers.dtype == torch.float32
    other = CenterLoss(CLASSES, DIM)
    other.load_state_dict(loss.state_dict())
    assert torch.equal(other.centers, loss.centers)


def test_the_distance_of_large_and_close_features_keeps_its_digits():
    """The expanded square, |f|^2 - 2 f c + |c|^2, is a difference of huge numbers: in fp32 little of it is left."""
    features = 1000 + 0.1 * torch.randn(32, 64)
    centers = 1000 + 0.1 * torch.randn(CLASSES, 64)
    labels = torch.arange(32) % CLASSES
    exact = center(features.double(), labels, centers.double())
    own = centers[labels]
    expanded = (features.square().sum(1) - 2 * (features * own).sum(1) + own.square().sum(1)) / 2
    assert expanded.min() < 0
    torch.testing.assert_close(center(features, labels, centers).double(), exact, rtol=1e-6, atol=0)


def follow_all_batches(rank: int) -> None:
    torch.manual_seed(rank)  # each process would start from centers of its own
    loss = CenterLoss(CLASSES, DIM, global_batch=True)
    torch.manual_seed(0)
    alone = CenterLoss(CLASSES, DIM)
    for step, sizes in enumerate(([3, 8], [7, 0], [1, 9])):
        torch.manual_seed(10 + step)
        features, labels = batch(sum(sizes))
        rows = slice(0, sizes[0]) if rank == 0 else slice(sizes[0], None)
        loss(features[rows].float(), labels[rows])
        alone(features.float(), labels)
        torch.testing.assert_close(loss.centers, alone.centers)


def test_processes_with_uneven_batches_keep_the_centers_of_one_process(tmp_path):
    together(follow_all_batches, 2, tmp_path)


# OLE


def ole_by_numpy(features, labels, delta=1.0):
    classes = [features[labels == c] for c in labels.unique()]
    norms = [np.linalg.norm(rows.numpy(), ord="nuc") for rows in classes]
    whole = np.linalg.norm(features.numpy(), ord="nuc")
    return (sum(max(delta, norm) for norm in norms) - whole) / len(features)


def ole_by_autograd(features, labels, delta=1.0):
    classes = [torch.linalg.svdvals(features[labels == c]).sum() for c in labels.unique()]
    return (sum(norm.clamp(min=delta) for norm in classes) - torch.linalg.svdvals(features).sum()) / len(features)


@pytest.mark.parametrize(
    "labels",
    [
        [0, 1, 2, 0, 1, 2, 0, 1, 2, 0],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        [7] * 10,
        [900, 3, 3, 5, 5, 3, 8, 3, 1, 3],
        [0] * 8 + [1, 2],
    ],
    ids=["even", "singletons", "one class", "mixed", "skewed"],
)
@pytest.mark.parametrize("dim", [4, 12])
def test_ole_is_the_nuclear_norms_of_the_classes_less_that_of_the_batch(labels, dim):
    features, labels = torch.randn(10, dim, dtype=torch.float64), torch.tensor(labels)
    for delta in (0.0, 1.0, 4.0):
        assert ole(features, labels, delta=delta).item() == pytest.approx(
            ole_by_numpy(features, labels, delta), abs=1e-12
        )
    if dim == 12:  # all singular values are there, so the derivative is one and autograd finds it
        torch.testing.assert_close(
            gradient_of(lambda x: ole(x, labels), features), gradient_of(lambda x: ole_by_autograd(x, labels), features)
        )
        assert torch.autograd.gradcheck(lambda x: ole(x, labels), features.requires_grad_())


def test_a_class_smaller_than_delta_is_pulled_by_the_batch_only():
    features, labels = batch(6)
    labels = torch.tensor([0, 0, 1, 1, 1, 2])
    whole = gradient_of(lambda x: -torch.linalg.svdvals(x).sum() / 6, features)
    torch.testing.assert_close(gradient_of(lambda x: ole(x, labels, delta=1e3), features), whole)
    features[labels != 1] *= 1e-3  # now class 1 alone is large enough
    pulled = gradient_of(lambda x: ole(x, labels), features)
    whole = gradient_of(lambda x: -torch.linalg.svdvals(x).sum() / 6, features)
    torch.testing.assert_close(pulled[labels != 1], whole[labels != 1])
    assert not torch.allclose(pulled[labels == 1], whole[labels == 1])


def test_the_weight_of_ole_goes_outside():
    features, labels = batch()
    once = gradient_of(lambda x: ole(x, labels), features)
    torch.testing.assert_close(gradient_of(lambda x: 2 * ole(x, labels), features), 2 * once)
    torch.testing.assert_close(gradient_of(lambda x: -0.25 * OLELoss()(x, labels), features), -0.25 * once)


def test_directions_without_a_feature_get_no_gradient_as_they_would_from_autograd():
    features, labels = batch(6, 4)
    labels = torch.tensor([0, 0, 1, 1, 1, 2])
    features[1] = features[0]  # class 0 has rank 1
    features[:, 3] = 0  # and nobody uses the last number
    ours = gradient_of(lambda x: ole(x, labels), features)
    naive = gradient_of(lambda x: ole_by_autograd(x, labels), features)
    torch.testing.assert_close(ours[:, 3], torch.zeros(6, dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close(ours[0], ours[1])
    assert naive[:, 3].abs().max() > 0.01
    assert not torch.allclose(naive[0], naive[1], atol=0.01)


def test_a_sample_shorter_than_the_threshold_counts_as_none_in_the_gradient():
    features = torch.diag(torch.tensor([1e-7, 1e-5, 1.0, 1.0], dtype=torch.float64))
    gradient = gradient_of(lambda x: ole(x, torch.tensor([0, 1, 2, 2]), delta=1e-3), features)
    assert not gradient[0].any()
    torch.testing.assert_close(gradient[1], torch.tensor([0.0, -0.25, 0.0, 0.0], dtype=torch.float64))
    assert not gradient_of(lambda x: ole(x, torch.tensor([0, 1, 2, 2]), delta=0.0), features)[0].any()


def test_ole_refuses_a_second_derivative():
    features, labels = batch()
    (gradient,) = torch.autograd.grad(ole(features.requires_grad_(), labels), features, create_graph=True)
    with pytest.raises(errors.DerivativeError, match="first derivative only"):
        gradient.sum().backward()


# HNC


def hnc_by_loops(maps, labels, k, form):
    total, count = 0.0, 0
    for i, image in enumerate(maps.tolist()):
        wrong = [c for c in range(len(image)) if c != labels[i]]
        chosen = sorted(wrong, key=lambda c: -sum(sum(row) for row in image[c]))[:k]
        for c in chosen:
            positions = [value for row in image[c] for value in row]
            partition = math.log(sum(math.exp(value) for value in positions))
            for value in positions:
                total += value**2 if form == "mse" else (partition - value) / len(positions)
                count += 1
    return total / (count if form == "mse" else len(maps))


@pytest.mark.parametrize("form", ["kd", "mse"])
@pytest.mark.parametrize("k", [1, 3, CLASSES - 1, CLASSES, 100])
def test_hnc_equals_loops_over_samples_classes_and_positions(form, k):
    maps, labels = torch.randn(4, CLASSES, 2, 3, dtype=torch.float64), torch.tensor([0, 4, 2, 2])
    expected = torch.tensor(hnc_by_loops(maps, labels, k, form), dtype=torch.float64)
    torch.testing.assert_close(negative_cam(maps, labels, k=k, form=form), expected)
    torch.testing.assert_close(NegativeCAMLoss(k, form)(maps, labels), expected)


@pytest.mark.parametrize("form", ["kd", "mse"])
@pytest.mark.parametrize("k", [2, CLASSES, 100])
def test_hnc_never_touches_the_map_of_the_label(form, k):
    maps, labels = torch.randn(4, CLASSES, 2, 3, dtype=torch.float64), torch.tensor([0, 4, 2, 2])
    maps[torch.arange(4), labels] += 1000  # by far the strongest
    gradient = gradient_of(lambda x: negative_cam(x, labels, k=k, form=form), maps)
    assert not gradient[torch.arange(4), labels].any()
    assert gradient.flatten(2).any(2).sum(1).tolist() == [min(k, CLASSES - 1)] * 4


def test_hnc_kd_sees_the_shape_of_a_map_and_not_its_height():
    maps, labels = torch.randn(4, CLASSES, 8, 8, dtype=torch.float64), torch.tensor([0, 4, 2, 2])
    raised = maps + torch.randn(4, 1, 1, 1, dtype=torch.float64)
    torch.testing.assert_close(negative_cam(raised, labels, k=3), negative_cam(maps, labels, k=3))
    assert not torch.allclose(negative_cam(raised, labels, form="mse"), negative_cam(maps, labels, form="mse"))
    flat = maps.mean((2, 3), keepdim=True).expand_as(maps)
    assert negative_cam(flat, labels, k=3).item() == pytest.approx(3 * math.log(64))
    assert negative_cam(maps, labels, k=3).item() > 3 * math.log(64)


def test_the_mean_of_a_class_activation_map_is_the_logit_of_the_pooled_features():
    classifier = nn.Linear(DIM, CLASSES).double()
    feature_maps = torch.randn(3, DIM, 4, 5, dtype=torch.float64)
    maps = class_activation_maps(feature_maps, classifier.weight, classifier.bias)
    torch.testing.assert_close(maps.mean((2, 3)), classifier(feature_maps.mean((2, 3))))
    without = class_activation_maps(feature_maps, classifier.weight)
    torch.testing.assert_close(without + classifier.bias[:, None, None], maps)


# Perpetual OPL


def perpetual_by_loops(features, labels, centers, version):
    rows, classes = len(features), len(centers)
    same = [cosine(features[i], centers[labels[i]]) for i in range(rows)]
    if version == 1:
        other = [cosine(features[i], centers[j]) for i in range(rows) for j in range(classes) if j != labels[i]]
        return 0.5 * (1 - sum(same) / rows) + abs(sum(other)) / max(1, len(other))
    apart = [abs(cosine(centers[j], centers[k]) - float(j == k)) for j in range(classes) for k in range(classes)]
    return 0.5 * sum(abs(1 - value) for value in same) / rows + sum(apart) / classes**2


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("classes", [1, 2, CLASSES])
def test_perpetual_equals_loops_over_samples_and_directions(version, classes):
    features, labels = batch(classes=classes)
    loss = PerpetualProjectionLoss(classes, DIM, version).double()
    value, expected = loss(features, labels), perpetual_by_loops(features, labels, loss.centers, version)
    torch.testing.assert_close(value, expected)
    (got,), (wanted,) = (torch.autograd.grad(x, loss.centers) for x in (value, expected))
    torch.testing.assert_close(got, wanted)
    by_features = gradient_of(lambda x: perpetual_by_loops(x, labels, loss.centers, version), features)
    torch.testing.assert_close(gradient_of(lambda x: loss(x, labels), features), by_features)


def test_perpetual_directions_ask_for_a_rate_of_their_own():
    loss = PerpetualProjectionLoss(CLASSES, DIM)
    assert set(loss.param_options) == {name for name, _ in loss.named_parameters()}
    assert 0.1 * loss.param_options["centers"]["lr_mult"] == pytest.approx(0.5)
    assert loss.param_options["centers"]["weight_decay"] == 0


# Distillation


def distillation_by_loops(student, teacher, form, t=1.0):
    rows, total = len(student), 0.0
    for i in range(rows):
        others = [j for j in range(rows) if j != i]
        ours = torch.stack([cosine(student[i], student[j]) for j in others])
        theirs = torch.stack([cosine(teacher[i], teacher[j]) for j in others])
        if form == "absolute":
            total += sum(abs(a - b) for a, b in zip(ours, theirs, strict=True)) / len(others)
        else:
            p, q = ((x / t).exp() / (x / t).exp().sum() for x in (ours, theirs))
            total += t**2 * sum(b * (b / a).log() for a, b in zip(p, q, strict=True))
    return total / rows


FORMS = [("absolute", 1.0), ("softmax", 1.0), ("softmax", 0.1), ("softmax", 4.0)]


@pytest.mark.parametrize(("form", "t"), FORMS)
def test_distillation_equals_a_double_loop_over_pairs(form, t):
    student, teacher = batch()[0], batch(dim=9)[0]
    loss = DistillationProjectionLoss(form, t)
    torch.testing.assert_close(loss(student, teacher), distillation_by_loops(student, teacher, form, t))
    expected = gradient_of(lambda x: distillation_by_loops(x, teacher, form, t), student)
    torch.testing.assert_close(gradient_of(lambda x: loss(x, teacher), student), expected)


@pytest.mark.parametrize(("form", "t"), FORMS)
def test_distillation_is_zero_where_the_cosines_agree_and_never_negative(form, t):
    for _ in range(20):
        student, teacher = batch(rows=4)[0], batch(rows=4)[0]
        assert distillation_projection(student, teacher, form=form, temperature=t) > 0
        same = distillation_projection(student, student.clone(), form=form, temperature=t)
        assert same == 0


@pytest.mark.parametrize(("form", "t"), FORMS)
def test_the_teacher_may_be_turned_and_scaled_and_gets_no_gradient(form, t):
    student, teacher = batch()[0].requires_grad_(), batch(dim=9)[0].requires_grad_()
    turn, _ = torch.linalg.qr(torch.randn(9, 9, dtype=torch.float64))
    scale = torch.rand(len(teacher), 1, dtype=torch.float64) + 0.1
    value = distillation_projection(student, teacher, form=form, temperature=t)
    turned = distillation_projection(student, scale * (teacher @ turn), form=form, temperature=t)
    torch.testing.assert_close(turned, value)
    value.backward()
    assert student.grad.any()
    assert teacher.grad is None


def test_a_zero_feature_is_no_pair_with_itself_in_the_distillation_either():
    student, teacher = batch()[0], batch()[0]
    student[0] = 0  # its cosines are 0, that with itself would be 1 for the teacher only
    others = [abs(cosine(teacher[0], teacher[j])) for j in range(1, 12)]
    rest = distillation_projection(student[1:], teacher[1:]) * 11 * 10
    torch.testing.assert_close(distillation_projection(student, teacher), (rest + 2 * sum(others)) / (12 * 11))


# What holds for all of them


CENTERS = torch.randn(CLASSES, DIM, generator=torch.Generator().manual_seed(3))


def as_maps(x):
    shape = torch.tensor([[-1.0, 0.5, 0.25], [2.0, -0.5, 4.0]], dtype=x.dtype)  # powers of two: exact in any type
    return x[:, :CLASSES, None, None] * shape


def with_moving_centers(x, y):
    loss = CenterLoss(CLASSES, DIM)
    loss.centers = CENTERS.clone()
    value = loss(x, y)
    return value + 0 * loss.centers.sum()  # centers that are no number would show


LOSSES = {
    "center": lambda x, y: center(x, y, CENTERS),
    "center, moving": with_moving_centers,
    "ole": ole,
    "hnc, kd": lambda x, y: negative_cam(as_maps(x), y, k=2),
    "hnc, mse": lambda x, y: negative_cam(as_maps(x), y, k=2, form="mse"),
    "perpetual 1": lambda x, y: perpetual(x, y, CENTERS),
    "perpetual 2": lambda x, y: perpetual(x, y, CENTERS, version=2),
    "distillation, absolute": lambda x, y: distillation_projection(x, F.one_hot(y, CLASSES).float()),
    "distillation, softmax": lambda x, y: distillation_projection(x, F.one_hot(y, CLASSES).float(), form="softmax"),
}
EDGES = {
    "zero features": (torch.zeros(4, DIM), torch.tensor([0, 1, 1, 4])),
    "a zero row": (torch.cat([torch.zeros(1, DIM), torch.ones(3, DIM)]), torch.tensor([0, 1, 1, 4])),
    "one sample": (torch.ones(1, DIM), torch.tensor([2])),
    "one class": (torch.ones(4, DIM), torch.tensor([3, 3, 3, 3])),
    "large features": (1e4 * torch.tensor([[1.0] * DIM, [-1.0] * DIM, [1.0, -1.0] * 3]), torch.tensor([0, 0, 4])),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_value_and_gradient_are_finite(name, edge, dtype):
    features, labels = EDGES[edge]
    x = features.clone().to(dtype).requires_grad_()
    value = LOSSES[name](x, labels)
    value.backward()
    assert value.shape == ()
    assert value.isfinite()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("name", LOSSES)
def test_no_sample_no_loss(name):
    x = torch.zeros(0, DIM, requires_grad=True)
    value = LOSSES[name](x, torch.zeros(0, dtype=torch.long))
    value.backward()
    assert value == 0
    assert x.grad.shape == x.shape


def test_no_sample_moves_no_direction():
    for version in (1, 2):
        loss = PerpetualProjectionLoss(CLASSES, DIM, version)
        loss(torch.zeros(0, DIM), torch.zeros(0, dtype=torch.long)).backward()
        assert not loss.centers.grad.any()


@pytest.mark.parametrize("name", LOSSES)
def test_half_features_and_autocast_are_computed_in_single_precision(name):
    features, labels = batch()
    half = features.bfloat16()
    expected = LOSSES[name](half.float(), labels)
    assert expected.dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(LOSSES[name](half, labels), expected)
        assert torch.equal(LOSSES[name](half.float(), labels), expected)
    assert torch.equal(LOSSES[name](half, labels), expected)
    double = LOSSES[name](half.double(), labels)
    assert double.dtype == torch.float64
    torch.testing.assert_close(expected.double(), double, rtol=1e-5, atol=1e-6)


def test_class_activation_maps_under_autocast_are_single_precision():
    x, weight = torch.randn(2, DIM, 3, 3), torch.randn(CLASSES, DIM)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(class_activation_maps(x, weight), class_activation_maps(x.float(), weight))
        assert class_activation_maps(x.bfloat16(), weight.bfloat16()).dtype == torch.float32


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "center, moving"])
def test_compiled_it_is_the_same(name):
    torch._dynamo.reset()
    features, labels = batch()
    compiled = torch.compile(LOSSES[name], fullgraph=name != "ole", backend="aot_eager", dynamic=False)
    eager, traced = features.float().requires_grad_(), features.float().requires_grad_()
    expected, got = LOSSES[name](eager, labels), compiled(traced, labels)
    torch.testing.assert_close(got, expected)
    expected.backward()
    got.backward()
    torch.testing.assert_close(traced.grad, eager.grad)


def test_compiled_without_a_graph_break_the_centers_move_alike_and_spoil_no_gradient():
    """This backend computes the distance a second time for `backward`, after the move, as the default one does."""
    torch._dynamo.reset()
    plain, inside = CenterLoss(CLASSES, DIM), CenterLoss(CLASSES, DIM)
    inside.load_state_dict(plain.state_dict())
    compiled = torch.compile(inside, fullgraph=True, backend="aot_eager_decomp_partition")
    for _ in range(3):
        features, labels = batch()
        eager, traced = features.float().requires_grad_(), features.float().requires_grad_()
        plain(eager, labels).backward()
        compiled(traced, labels).backward()
        torch.testing.assert_close(traced.grad, eager.grad)
        torch.testing.assert_close(inside.centers, plain.centers)


X, Y, MAPS = torch.randn(4, DIM), torch.tensor([0, 1, 0, 1]), torch.randn(4, CLASSES, 2, 2)
NAN = X.clone()
NAN[1, 2] = float("nan")
TABLE = {
    "alpha below 0": (lambda: CenterLoss(3, DIM, alpha=-0.5), errors.OptionError, ["alpha is -0.5", "from 0 up"]),
    "alpha not finite": (
        lambda: update_centers(CENTERS, X, Y, float("nan")),
        errors.OptionError,
        ["alpha is nan", "finite"],
    ),
    "centers of no class": (lambda: CenterLoss(0, DIM), errors.OptionError, ["0 classes", "at least"]),
    "a label without a center": (
        lambda: center(X, torch.tensor([0, 1, 5, 1]), CENTERS),
        errors.LabelError,
        ["label 5", "num_classes=6"],
    ),
    "features of another width": (lambda: center(X[:, :3], Y, CENTERS), errors.OptionError, ["3 numbers", "for 6"]),
    "a global batch alone": (
        lambda: CenterLoss(CLASSES, DIM, global_batch=True)(X, Y),
        errors.DistributedError,
        ["init_process_group", "global_batch=False"],
    ),
    "delta below 0": (lambda: OLELoss(delta=-1), errors.OptionError, ["delta is -1", "from 0 up"]),
    "threshold 0": (lambda: ole(X, Y, threshold=0.0), errors.OptionError, ["threshold is 0.0", "above 0"]),
    "a negative label": (lambda: ole(X, Y - 100), errors.LabelError, ["label -100", "labels >= 0"]),
    "soft labels": (lambda: ole(X, torch.full((4, 2), 0.5)), errors.LabelError, ["soft labels", "argmax(1)"]),
    "a NaN feature": (lambda: ole(NAN, Y), errors.FeatureError, ["NaN", "learning rate"]),
    "no class to choose": (lambda: NegativeCAMLoss(k=0), errors.OptionError, ["k is 0", "from 1 up"]),
    "k no integer": (lambda: negative_cam(MAPS, Y, k=2.5), errors.OptionError, ["k is 2.5", "integer"]),
    "an unknown form": (lambda: NegativeCAMLoss(form="mes"), errors.OptionError, ["'mes'", "did you mean 'mse'"]),
    "one class": (lambda: negative_cam(MAPS[:, :1], Y), errors.OptionError, ["one class", "at least 2"]),
    "pooled maps": (lambda: negative_cam(X, Y), errors.FeatureError, ["(4, 6)", "(B, C, H, W)"]),
    "maps of integers": (lambda: negative_cam(MAPS.long(), Y), errors.FeatureError, ["int64", "float()"]),
    "maps that are no tensor": (lambda: negative_cam([[1.0]], Y), errors.FeatureError, ["list", "torch.Tensor"]),
    "maps without a position": (lambda: negative_cam(MAPS[..., :0], Y), errors.FeatureError, ["(4, 5, 2, 0)"]),
    "a label without a map": (lambda: negative_cam(MAPS, Y + 4), errors.LabelError, ["label 5"]),
    "a weight of another width": (
        lambda: class_activation_maps(MAPS, torch.randn(3, 4)),
        errors.OptionError,
        ["(3, 4)", "(C, 5)"],
    ),
    "an unknown version": (
        lambda: PerpetualProjectionLoss(3, DIM, version=3),
        errors.OptionError,
        ["version 3", "1 or 2"],
    ),
    "directions of no number": (lambda: PerpetualProjectionLoss(3, 0), errors.OptionError, ["0 numbers"]),
    "a label without a direction": (lambda: perpetual(X, Y - 1, CENTERS), errors.LabelError, ["label -1"]),
    "another unknown form": (
        lambda: DistillationProjectionLoss(form="soft"),
        errors.OptionError,
        ["'soft'", "did you mean 'softmax'"],
    ),
    "temperature 0": (
        lambda: DistillationProjectionLoss(temperature=0),
        errors.OptionError,
        ["temperature is 0", "above 0"],
    ),
    "fewer teacher rows": (lambda: distillation_projection(X, X[:3]), errors.FeatureError, ["3 teacher", "4 student"]),
    "a teacher of integers": (
        lambda: distillation_projection(X, X.long()),
        errors.FeatureError,
        ["teacher_features", "int64"],
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_bad_input_gets_its_sentence(case):
    says(*TABLE[case])


@pytest.mark.parametrize("name", ["center", "ole", "negative_cam", "perpetual", "distillation"])
def test_the_docstrings_examples_are_true(name):
    module = importlib.import_module(f"opl.losses.{name}")
    result = doctest.testmod(module, extraglobs={"torch": torch, "nn": nn, "F": F})
    assert result.attempted > 0
    assert result.failed == 0
