"""Weight 0 inside other people's trainers is their own training, bit for bit."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import opl

INPUTS = torch.randn(96, 3, 16, 16, generator=torch.Generator().manual_seed(0))
LABELS = torch.randint(0, 4, (96,), generator=torch.Generator().manual_seed(1))


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def trained_by_lightning(make_criterion) -> torch.Tensor:
    lightning = pytest.importorskip("pytorch_lightning", reason="pytorch-lightning is not installed")

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = nn.Sequential(nn.Flatten(), nn.Linear(768, 32), nn.ReLU(), nn.Linear(32, 4))
            self.criterion = make_criterion(self.model)

        def training_step(self, batch, _):
            return self.criterion(self.model(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    lightning.seed_everything(0, verbose=False)
    module = Module()
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accumulate_grad_batches=2,
    )
    trainer.fit(module, DataLoader(TensorDataset(INPUTS, LABELS), 16))
    return weights(module.model)


def trained_by_hugging_face(make_criterion, folder) -> torch.Tensor:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    transformers.set_seed(0)
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=4
    )
    model = transformers.ResNetForImageClassification(config)
    arguments = transformers.TrainingArguments(
        str(folder),
        num_train_epochs=2,
        per_device_train_batch_size=16,
        gradient_accumulation_steps=2,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
    )
    rows = [{"pixel_values": x, "labels": y} for x, y in zip(INPUTS, LABELS, strict=True)]
    trainer = transformers.Trainer(model, arguments, train_dataset=rows, compute_loss_func=make_criterion(model))
    trainer.train()
    return weights(model)


@pytest.mark.filterwarnings("ignore")
def test_lightning():
    plain = trained_by_lightning(lambda model: F.cross_entropy)
    assert torch.equal(trained_by_lightning(lambda model: opl.regularize(F.cross_entropy, model, weight=0)), plain)
    assert not torch.equal(trained_by_lightning(lambda model: opl.regularize(F.cross_entropy, model)), plain)


def test_hugging_face_with_accumulated_gradients(tmp_path):
    def base(output, labels, num_items_in_batch):  # what the Trainer asks for: a sum over all accumulated items
        return F.cross_entropy(output.logits, labels, reduction="sum") / num_items_in_batch

    plain = trained_by_hugging_face(lambda model: base, tmp_path)
    zero = trained_by_hugging_face(lambda model: opl.regularize(F.cross_entropy, model, weight=0), tmp_path)
    assert torch.equal(zero, plain)
    assert not torch.equal(
        trained_by_hugging_face(lambda model: opl.regularize(F.cross_entropy, model), tmp_path), plain
    )
