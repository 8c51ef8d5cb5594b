"""The variants of OPL against loops in float64: values, gradients, state, and several processes."""

import copy
import math

import pytest
import torch
import torch.distributed as dist
from _loss_features import CLASSES, DIM, batch, cosine, gradient_of
from torch import nn

import opl
from _gloo import together
from _said import says
from opl import AutoGamma, OrthogonalProjectionLoss, Ramp, errors, functional, schedules
from opl.losses.centered import CenteredProjectionLoss
from opl.losses.prototypes import PrototypeProjectionLoss, prototype_projection


def pairs_by_loops(features, labels):
    """s, d as the mean of |cos|, and d signed, over ordered pairs."""
    same, other = [], []
    for i in range(len(labels)):
        for j in range(len(labels)):
            if i != j:
                (same if labels[i] == labels[j] else other).append(cosine(features[i], features[j]))
    return sum(same) / len(same), sum(map(abs, other)) / len(other), sum(other) / len(other)


def prototypes_by_loops(features, labels, centers, gamma, temperature):
    total = 0.0
    for i, y in enumerate(labels.tolist()):
        others = [cosine(features[i], v) for k, v in enumerate(centers) if k != y and v.any()]
        hard = temperature * torch.log(sum(torch.exp(c / temperature) for c in others) / len(others))
        total = total + 1 - cosine(features[i], centers[y]) + gamma * hard
    return total / len(labels)


def moved_by_loops(features, labels, centers, momentum):
    moved = centers.clone()
    for k in range(len(centers)):
        rows = [f / f.norm() for f, y in zip(features, labels, strict=True) if y == k]
        if rows:
            mean = sum(rows) / len(rows)
            moved[k] = momentum * centers[k] + (1 - momentum) * mean if centers[k].any() else mean
            moved[k] /= moved[k].norm()
    return moved


def same_by_value_and_gradient(loss, by_loops, features, labels):
    twin = copy.deepcopy(loss)
    torch.testing.assert_close(loss(features, labels), by_loops(features).detach(), rtol=1e-10, atol=1e-12)
    wanted = gradient_of(by_loops, features)
    torch.testing.assert_close(gradient_of(lambda x: twin(x, labels), features), wanted, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("readable", [True, False], ids=["numbers", "tensors"])
def test_the_log_ratio_equals_loops(readable, monkeypatch):
    monkeypatch.setattr(functional, "is_readable", lambda value: readable)
    features, labels = batch()

    def by_loops(x):
        s, d, _ = pairs_by_loops(x, labels)
        below = math.log(0.01) + s / 0.01  # the tangent, for s below 0
        return torch.log(d + 0.01) - (torch.log(s + 0.01) if s > 0 else below)

    for x in (features, features.abs()):
        same_by_value_and_gradient(OrthogonalProjectionLoss(form="log_ratio").double(), by_loops, x, labels)


@pytest.mark.parametrize("readable", [True, False], ids=["numbers", "tensors"])
def test_gamma_auto_is_what_the_running_means_need(readable, monkeypatch):
    monkeypatch.setattr(schedules, "is_readable", lambda value: readable)
    loss = OrthogonalProjectionLoss(gamma=AutoGamma(floor=0.2, margin=0.3, momentum=0.5)).double()
    sums, weight = torch.zeros(2, dtype=torch.float64), 0.0
    for seed in range(3):
        torch.manual_seed(seed)
        features, labels = batch()
        s, d, _ = pairs_by_loops(features, labels)
        sums, weight = 0.5 * sums + 0.5 * torch.stack([s, d]), 0.5 * weight + 0.5
        mean_s, mean_d = sums / weight
        gamma = max(0.2, float((1 - mean_s) / (1 - mean_d)) + 0.3)

        def by_loops(x, gamma=gamma, labels=labels):
            s, d, _ = pairs_by_loops(x, labels)
            return 1 - s + gamma * d

        same_by_value_and_gradient(loss, by_loops, features, labels)
    before = copy.deepcopy(loss.state_dict())
    loss.eval()(features, labels)
    torch.testing.assert_close(loss.state_dict(), before, rtol=0, atol=0)


def test_a_batch_without_pairs_of_both_kinds_does_not_move_gamma():
    loss = OrthogonalProjectionLoss(gamma="auto")
    loss(*batch())
    before = copy.deepcopy(loss.state_dict())
    loss(torch.randn(4, 3).abs(), torch.arange(4))
    loss(torch.randn(4, 3).abs(), torch.zeros(4, dtype=torch.long))
    assert loss.state_dict() == before
    loss(*batch())
    assert loss.state_dict() != before


def test_gamma_auto_of_features_in_one_direction_is_finite():
    loss = OrthogonalProjectionLoss(gamma="auto")
    for _ in range(3):
        value = loss(torch.ones(4, 3), torch.tensor([0, 0, 1, 1]))
    torch.testing.assert_close(value, torch.tensor(1.1))  # 1 - 1 + (1 + 0.1) * 1


@pytest.mark.parametrize("shape", ["linear", "cosine"])
def test_a_ramp_takes_gamma_from_start_to_end(shape):
    loss = OrthogonalProjectionLoss(gamma=Ramp(0.5, 2.0, steps=4, shape=shape)).double()
    features, labels = batch()
    s, d, _ = pairs_by_loops(features, labels)
    ways = [0, 0.25, 0.5, 0.75, 1, 1]
    ways = ways if shape == "linear" else [(1 - math.cos(math.pi * way)) / 2 for way in ways]
    for way in ways:
        torch.testing.assert_close(loss(features, labels), 1 - s + (0.5 + 1.5 * way) * d)
    loss.rule.set_step(2)
    torch.testing.assert_close(loss.diagnose(features, labels).gamma, torch.tensor(1.25, dtype=torch.float64))


def test_centered_opl_equals_loops_over_features_without_their_running_mean():
    loss = CenteredProjectionLoss(DIM, gamma=0.7, momentum=0.5).double()
    total, weight = 0.0, 0.0
    for seed in range(3):
        torch.manual_seed(seed)
        features, labels = batch()
        total, weight = 0.5 * total + 0.5 * features.mean(0), 0.5 * weight + 0.5
        mean = total / weight

        def by_loops(x, mean=mean, labels=labels):
            s, _, d = pairs_by_loops(x - mean, labels)
            return 1 - s + 0.7 * d

        same_by_value_and_gradient(loss, by_loops, features, labels)


def test_features_that_are_all_their_mean_have_no_direction():
    loss = CenteredProjectionLoss(DIM)
    x = torch.full((5, DIM), 1 / 3, requires_grad=True)
    loss(x, torch.arange(5) % 2).backward()
    assert not x.grad.any()


@pytest.mark.parametrize("gamma", [1.0, Ramp(0.3, 0.3, steps=2)])
def test_prototypes_equal_loops_over_samples_and_classes(gamma):
    loss = PrototypeProjectionLoss(DIM, num_classes=CLASSES, gamma=gamma, temperature=0.3, momentum=0.8).double()
    centers = torch.zeros(CLASSES, DIM, dtype=torch.float64)
    for seed in range(3):
        torch.manual_seed(seed)
        features, labels = batch(rows=6)
        centers = moved_by_loops(features, labels, centers, 0.8)
        value = gamma if isinstance(gamma, float) else 0.3
        same_by_value_and_gradient(
            loss,
            lambda x, c=centers, y=labels, g=value: prototypes_by_loops(x, y, c, g, 0.3),
            features,
            labels,
        )
        torch.testing.assert_close(loss.centers, centers, rtol=1e-12, atol=1e-12)
    left_out = labels.clone()
    left_out[::2] = -100
    torch.testing.assert_close(
        prototype_projection(features, left_out, centers),
        prototype_projection(features[1::2], labels[1::2], centers),
    )


VARIANTS = {
    "auto": lambda many: OrthogonalProjectionLoss(gamma=AutoGamma(momentum=0.5), global_batch=many),
    "ramp": lambda many: OrthogonalProjectionLoss(gamma=Ramp(0.0, 2.0, steps=3), global_batch=many),
    "log-ratio": lambda many: OrthogonalProjectionLoss(form="log_ratio", global_batch=many),
    "centered": lambda many: CenteredProjectionLoss(DIM, momentum=0.5, global_batch=many),
    "prototypes": lambda many: PrototypeProjectionLoss(DIM, num_classes=CLASSES, global_batch=many),
}


def compare_with_one_process(rank: int, sizes: list[int]) -> None:
    rows = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
    for name, build in VARIANTS.items():
        alone, many = build(False).double(), build(True).double()
        for seed in range(3):
            torch.manual_seed(seed)
            x, labels = batch(rows=sum(sizes))
            labels[3] = -100
            whole, mine = x.clone().requires_grad_(), x[rows].clone().requires_grad_()
            wanted, got = alone.diagnose(whole, labels), many.diagnose(mine, labels[rows])
            for one, other in zip(wanted, got, strict=True):
                if one is not None:
                    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12, msg=name)
            (gradient,) = torch.autograd.grad(wanted.loss, whole)
            (share,) = torch.autograd.grad(got.loss, mine)
            torch.testing.assert_close(share / len(sizes), gradient[rows], rtol=1e-9, atol=1e-12, msg=name)
        torch.testing.assert_close(many.state_dict(), alone.state_dict(), rtol=1e-12, atol=1e-14)
        for value in many.state_dict().values():
            copies = [torch.empty_like(value) for _ in sizes]
            dist.all_gather(copies, value)
            assert all(torch.equal(copies[0], each) for each in copies), name


def refuse_together(rank: int, sizes: list[int]) -> None:
    compare_with_one_process(rank, sizes)
    for build in (VARIANTS["prototypes"], VARIANTS["centered"]):
        loss = build(True)
        with pytest.raises((errors.OptionError, errors.DistributedError)):
            loss(torch.randn(4, DIM + (rank == 0)), torch.arange(4))
    with pytest.raises((errors.LabelError, errors.DistributedError)):
        VARIANTS["prototypes"](True)(torch.randn(4, DIM), torch.arange(4) + 100 * (rank == 0))


@pytest.mark.parametrize("sizes", [[8, 5], [5, 0, 8]], ids=str)
def test_several_processes_equal_one_in_value_gradient_and_state(tmp_path, sizes):
    together(refuse_together, len(sizes), tmp_path, sizes)


MODEL = nn.Linear(4, 3)
TABLE = {
    "a gamma that is no rule": (lambda: OrthogonalProjectionLoss(gamma="automatic"), errors.OptionError, ["'auto'"]),
    "a gamma that is no number": (lambda: OrthogonalProjectionLoss(gamma=float("nan")), errors.OptionError, ["nan"]),
    "a ramp without steps": (lambda: Ramp(steps=0), errors.OptionError, ["gamma.steps is 0"]),
    "an unknown form": (
        lambda: opl.regularize(nn.CrossEntropyLoss(), MODEL, form="log-ratio"),
        errors.OptionError,
        ["did you mean 'log_ratio'"],
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_bad_settings_get_their_sentence(case):
    says(*TABLE[case])


@pytest.mark.parametrize(
    "options",
    [
        {"gamma": "auto"},
        {"gamma": Ramp(0.0, 1.0, steps=5)},
        {"form": "log_ratio"},
    ],
    ids=str,
)
def test_gamma_and_form_are_options_of_regularize(options):
    criterion = opl.regularize(nn.CrossEntropyLoss(), MODEL, weight=0.5, **options)
    x, y = torch.randn(6, 4, requires_grad=True), torch.arange(6) % 3
    loss = criterion(MODEL(x), y)
    loss.backward()
    assert loss.isfinite()
    assert x.grad.isfinite().all()
    torch.testing.assert_close(loss.detach(), criterion.last.base + 0.5 * criterion.last.projection)
