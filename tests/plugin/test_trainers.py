"""OPL in trainers of other libraries: the weights after some steps are those of a loop with the textbook."""

import pytest
import torch
from _trainers import fit_by_lightning, hugging_face_trainer
from torch import nn
from torch.nn import functional as F

import opl
from _textbook import textbook

STEPS, LR = 3, 0.1
LABELS = torch.arange(24) % 4
INPUTS = torch.randn(24, 6, generator=torch.Generator().manual_seed(0)) + LABELS[:, None]
PLAIN = {"optim": "sgd", "lr_scheduler_type": "constant", "max_grad_norm": 0.0, "learning_rate": LR}


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))


def assert_same_weights(model: nn.Module, smoothing: float = 0.0) -> None:
    """The weights are those of a loop with the textbook's loss."""
    expected = network()
    optimizer = torch.optim.SGD(expected.parameters(), LR)
    for _ in range(STEPS):
        features = expected[:2](INPUTS)
        loss = F.cross_entropy(expected[2](features), LABELS, label_smoothing=smoothing) + textbook(features, LABELS)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for ours, theirs, start in zip(model.parameters(), expected.parameters(), network().parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
        assert not torch.equal(ours, start)


def by_hugging_face(folder, criterion_of, batch=24, **settings) -> nn.Module:
    torch.manual_seed(1)
    steps = {"per_device_train_batch_size": batch, "num_train_epochs": STEPS}
    trainer = hugging_face_trainer(folder, network(), (INPUTS, LABELS), criterion_of, **steps, **PLAIN, **settings)
    trainer.train()
    return trainer.model.net


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_hugging_face_with_the_label_smoothing_of_the_criterion(tmp_path, smoothing):
    base = nn.CrossEntropyLoss(label_smoothing=smoothing)
    assert_same_weights(by_hugging_face(tmp_path, lambda model: opl.regularize(base, model)), smoothing)


def test_label_smoothing_of_the_trainer_is_refused_since_it_would_have_no_effect(tmp_path):
    with pytest.raises(opl.errors.OptionError, match=r"label_smoothing_factor is 0\.2 and has no effect") as caught:
        by_hugging_face(
            tmp_path, lambda model: opl.regularize(nn.CrossEntropyLoss(), model), label_smoothing_factor=0.2
        )
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore")
def test_lightning():
    model = fit_by_lightning(
        network(), lambda m: opl.regularize(nn.CrossEntropyLoss(), m), (INPUTS, LABELS), 24, LR, max_epochs=STEPS
    )
    assert_same_weights(model)


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


@pytest.mark.filterwarnings("ignore")
def test_weight_zero_in_lightning_is_its_plain_training_bit_for_bit():
    def train(criterion_of):
        settings = {"max_epochs": 2, "accumulate_grad_batches": 2}
        return weights(fit_by_lightning(network(), criterion_of, (INPUTS, LABELS), 6, LR, **settings))

    plain = train(lambda model: F.cross_entropy)
    assert torch.equal(train(lambda model: opl.regularize(F.cross_entropy, model, weight=0)), plain)
    assert not torch.equal(train(lambda model: opl.regularize(F.cross_entropy, model)), plain)


def test_weight_zero_in_hugging_face_with_accumulated_gradients_is_its_plain_training(tmp_path):
    def base(output, labels, num_items_in_batch):  # what the Trainer expects: a sum over all accumulated items
        return F.cross_entropy(output["logits"], labels, reduction="sum") / num_items_in_batch

    def train(criterion_of):
        return weights(by_hugging_face(tmp_path, criterion_of, batch=6, gradient_accumulation_steps=2))

    plain = train(lambda model: base)
    assert torch.equal(train(lambda model: opl.regularize(F.cross_entropy, model, weight=0)), plain)
    assert not torch.equal(train(lambda model: opl.regularize(F.cross_entropy, model)), plain)
