"""OPL in a Lightning module: two lines differ from plain cross-entropy. Takes seconds on a CPU, on synthetic data.

pip install pytorch-lightning && python examples/lightning_module.py
"""

import warnings

import pytorch_lightning as lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import opl


class Classifier(lightning.LightningModule):
    def __init__(self, weight: float = 1.0) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4))
        self.criterion = opl.regularize(nn.CrossEntropyLoss(), self.model, weight=weight)  # 1. build it

    def training_step(self, batch, _):
        inputs, labels = batch
        loss = self.criterion(self.model(inputs), labels)  # 2. call it
        parts = self.criterion.last
        self.log_dict({"base": parts.base, "s": parts.same, "d": parts.other}, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        inputs, labels = batch
        logits = self.model(inputs)
        self.log("val/loss", self.criterion(logits, labels))  # in evaluation: the base criterion alone
        self.log("val/accuracy", (logits.argmax(1) == labels).float().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def blobs(rows: int, seed: int) -> TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    centers = torch.randn(4, 20, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(0, 4, (rows,), generator=generator)
    return TensorDataset(centers[labels] + torch.randn(rows, 20, generator=generator), labels)


def main() -> None:
    warnings.filterwarnings("ignore", module="pytorch_lightning")
    for weight in (0.0, 1.0):
        lightning.seed_everything(0, verbose=False)
        module = Classifier(weight)
        trainer = lightning.Trainer(
            max_epochs=5, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False,
        )  # fmt: skip
        trainer.fit(module, DataLoader(blobs(512, 1), 64, shuffle=True), DataLoader(blobs(512, 2), 256))
        seen = {name: value.item() for name, value in trainer.callback_metrics.items()}
        print(f"weight {weight}: accuracy {seen['val/accuracy']:.2%}, s {seen['s']:.3f}, d {seen['d']:.3f}")


if __name__ == "__main__":
    main()
