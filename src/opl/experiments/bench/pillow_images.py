"""CIFAR-like images augmented one at a time with Pillow, as most training scripts have it."""

import torch
from torch import Tensor
from torch.utils.data import Dataset


class PillowImages(Dataset[tuple[Tensor, Tensor]]):
    """(N, 3, 32, 32) uint8 pixels and their labels; each image is padded, cropped, flipped and jittered."""

    def __init__(self, pixels: Tensor, labels: Tensor) -> None:
        self.pixels, self.labels = pixels.permute(0, 2, 3, 1).numpy(), labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        from PIL import Image, ImageEnhance, ImageOps

        draw = torch.rand(6).tolist()
        image = ImageOps.expand(Image.fromarray(self.pixels[index]), 4)
        left, top = int(draw[0] * 9), int(draw[1] * 9)
        image = image.crop((left, top, left + 32, top + 32))
        image = ImageOps.mirror(image) if draw[2] < 0.5 else image
        kinds = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)
        for enhance, part in zip(kinds, draw[3:], strict=True):
            image = enhance(image).enhance(0.6 + 0.8 * part)
        pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(32, 32, 3)
        return (pixels.permute(2, 0, 1).float() / 255 - 0.5) / 0.25, self.labels[index]
