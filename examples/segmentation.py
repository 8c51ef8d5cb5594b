"""OPL on every labeled pixel of a segmentation network. Takes seconds on a CPU, on synthetic images.

python examples/segmentation.py
"""

import torch
from torch import nn

import opl

UNLABELED = 255


def make_images(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rectangles of three kinds on a background, with noise; the border of each image has no label."""
    generator = torch.Generator().manual_seed(seed)
    colors = torch.randn(4, 3, generator=torch.Generator().manual_seed(7))
    labels = torch.zeros(count, 24, 24, dtype=torch.long)
    for label in labels:
        for kind in (1, 2, 3):
            top, left = torch.randint(0, 14, (2,), generator=generator).tolist()
            label[top : top + 10, left : left + 10] = kind
    images = colors[labels].permute(0, 3, 1, 2) + torch.randn(count, 3, 24, 24, generator=generator)
    labels[:, [0, -1]] = labels[:, :, [0, -1]] = UNLABELED
    return images, labels


class Network(nn.Module):
    """Classifies the pixels of a smaller map, and resizes the logits to the size of the image."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU())
        self.classify = nn.Conv2d(16, 4, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return nn.functional.interpolate(self.classify(self.body(images)), size=images.shape[2:], mode="bilinear")


def main() -> None:
    images, labels = make_images(96, 0)
    test_images, test_labels = make_images(48, 1)
    known = test_labels != UNLABELED
    for weight in (0.0, 1.0):
        torch.manual_seed(0)
        model = Network()
        criterion = opl.regularize(nn.CrossEntropyLoss(ignore_index=UNLABELED), model, weight=weight)  # the only change
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for step in range(60):
            rows = torch.arange(16) + 16 * (step % 6)
            optimizer.zero_grad()
            criterion(model(images[rows]), labels[rows]).backward()
            optimizer.step()
        with torch.no_grad(), opl.FeatureTap(model) as tap:
            right = (model(test_images).argmax(1) == test_labels)[known].double().mean()
            vectors = tap.features.movedim(1, -1)[:, 1:-1, 1:-1].reshape(-1, 16)
            geometry = opl.geometry.measure(vectors, test_labels[:, 3:-1:2, 3:-1:2].reshape(-1))
        print(f"weight {weight}: accuracy {right:.2%}, s {geometry.same:.3f}, d {geometry.other():.3f}")


if __name__ == "__main__":
    main()
