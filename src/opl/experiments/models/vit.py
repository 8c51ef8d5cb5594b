"""Vision transformers in their plain form: patches, fixed positions, blocks of attention and MLP, average pooling."""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..._ranges import Pixels, Range, Width, check_settings
from ...errors import OptionError
from ..types import Model
from .network import Network


@dataclass(frozen=True)
class ViT(Model):
    """A vision transformer as in "Better plain ViT baselines for ImageNet-1k" (Beyer et al. 2022); ViT-S/16 by default.

    Positions are fixed sines and cosines of the patch's row and column, so that images of any size fit; the features
    are the average of the last tokens, which may be negative.
    """

    patch: Pixels = 16
    """Height and width of a patch; images must be a multiple of it."""
    width: Width = 384
    """Channels of a token, a multiple of four times the number of heads; also the number of features."""
    depth: Annotated[int, Range(1, 100)] = 12
    heads: Annotated[int, Range(1, 64)] = 6

    def build(self, channels: int, num_classes: int) -> Network:
        """Build the module with newly initialized weights; the classifier starts at zero."""
        check_settings(self, "model.")
        if self.width % (4 * self.heads):
            raise OptionError(
                f"model.width is {self.width} but must be a multiple of {4 * self.heads} for {self.heads} heads, so "
                "that heads and positions share the channels evenly."
            )
        parts: dict[str, nn.Module] = {
            "patches": Patches(channels, self.width, self.patch),
            "blocks": nn.Sequential(*(Block(self.width, self.heads) for _ in range(self.depth))),
            "norm": nn.LayerNorm(self.width),
            "pool": MeanToken(),
        }
        model = Network(parts, self.width, num_classes)
        for part in model.modules():
            if isinstance(part, nn.Linear):
                nn.init.xavier_uniform_(part.weight)
                nn.init.zeros_(part.bias)
        nn.init.zeros_(model.get_submodule("fc").get_parameter("weight"))
        return model


class Patches(nn.Module):
    """Cut images into patches and project each to a token; add the position of the patch."""

    def __init__(self, channels: int, width: int, patch: int) -> None:
        super().__init__()
        self.width, self.patch = width, patch
        self.project = nn.Conv2d(channels, width, patch, stride=patch)

    def forward(self, images: Tensor) -> Tensor:
        """Map (B, channels, H, W) images to (B, N, width) tokens."""
        if images.shape[2] % self.patch or images.shape[3] % self.patch:
            raise OptionError(
                f"images of {images.shape[2]} x {images.shape[3]} cannot be cut into patches of {self.patch}: use a "
                "size that is a multiple of the patch."
            )
        maps = self.project(images)
        embedding = positions(maps.shape[2], maps.shape[3], self.width).to(maps)
        tokens: Tensor = maps.flatten(2).transpose(1, 2) + embedding
        return tokens


class Block(nn.Module):
    """Attention and an MLP four times as wide, each on normalized tokens and added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.reduce = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map (B, N, width) tokens to the same shape."""
        tokens = tokens + self._attend(self.norm1(tokens))
        out: Tensor = tokens + self.reduce(F.gelu(self.expand(self.norm2(tokens))))
        return out

    def _attend(self, tokens: Tensor) -> Tensor:
        queries, keys, values = self.qkv(tokens).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(queries, keys, values)
        projected: Tensor = self.project(mixed.transpose(1, 2).flatten(2))
        return projected


class MeanToken(nn.Module):
    """Average the tokens."""

    def forward(self, tokens: Tensor) -> Tensor:
        """Map (B, N, width) tokens to (B, width) features."""
        return tokens.mean(1)


def positions(rows: int, columns: int, width: int) -> Tensor:
    """Return (rows * columns, width) positions: sines and cosines of the row and of the column, a quarter each.

    Example:
        >>> positions(1, 2, 4)
        tensor([[0.0000, 1.0000, 0.0000, 1.0000],
                [0.0000, 1.0000, 0.8415, 0.5403]])
    """
    scales = torch.exp(-math.log(10_000) * torch.arange(width // 4) / max(1, width // 4 - 1))
    down = torch.arange(rows)[:, None, None].expand(rows, columns, 1) * scales
    across = torch.arange(columns)[None, :, None].expand(rows, columns, 1) * scales
    return torch.cat([down.sin(), down.cos(), across.sin(), across.cos()], dim=2).flatten(0, 1)
