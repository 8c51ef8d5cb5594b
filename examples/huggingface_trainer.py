"""OPL in the Hugging Face Trainer, passed as `compute_loss_func`. Takes seconds on a CPU, on synthetic images.

pip install transformers accelerate && python examples/huggingface_trainer.py
"""

import tempfile

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification, set_seed

import opl


class NoisyPatterns(Dataset):
    """Images of four patterns with noise."""

    def __init__(self, rows: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        patterns = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(7))
        self.labels = torch.randint(0, 4, (rows,), generator=generator)
        self.images = patterns[self.labels] + 2 * torch.randn(rows, 3, 16, 16, generator=generator)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict:
        return {"pixel_values": self.images[index], "labels": self.labels[index]}


def main() -> None:
    for weight in (0.0, 1.0):
        set_seed(0)
        config = ViTConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=16,
            patch_size=8, num_labels=4,
        )  # fmt: skip
        model = ViTForImageClassification(config)
        criterion = opl.regularize(nn.CrossEntropyLoss(), model, weight=weight)
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(
                folder, num_train_epochs=8, per_device_train_batch_size=32, gradient_accumulation_steps=2,
                learning_rate=2e-3, report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True,
                use_cpu=True,
            )  # fmt: skip
            trainer = Trainer(
                model, arguments, train_dataset=NoisyPatterns(512, 0), eval_dataset=NoisyPatterns(256, 1),
                compute_loss_func=criterion,
                compute_metrics=lambda seen: {"accuracy": float((seen.predictions.argmax(1) == seen.label_ids).mean())},
            )  # fmt: skip
            trainer.train()
            accuracy = trainer.evaluate()["eval_accuracy"]
        with torch.no_grad(), opl.FeatureTap(model) as tap:
            test = NoisyPatterns(256, 1)
            model.eval()(test.images)
            geometry = opl.geometry.measure(tap.features, test.labels)
        print(f"weight {weight}: accuracy {accuracy:.2%}, s {geometry.same:.3f}, d {geometry.other():.3f}")


if __name__ == "__main__":
    main()
