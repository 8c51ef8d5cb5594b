"""The vision transformer, vs the encoder layer of PyTorch and counts by hand."""

import pytest
import torch
from torch import nn

from opl.errors import OptionError
from opl.experiments.models import ViT
from opl.experiments.models.vit import Block, positions


def reference(block: Block, width: int, heads: int) -> nn.Module:
    """PyTorch's encoder layer with the weights of a block."""
    layer = nn.TransformerEncoderLayer(
        width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    pairs = {
        "self_attn.in_proj_weight": block.qkv.weight, "self_attn.in_proj_bias": block.qkv.bias,
        "self_attn.out_proj.weight": block.project.weight, "self_attn.out_proj.bias": block.project.bias,
        "linear1.weight": block.expand.weight, "linear1.bias": block.expand.bias,
        "linear2.weight": block.reduce.weight, "linear2.bias": block.reduce.bias,
        "norm1.weight": block.norm1.weight, "norm1.bias": block.norm1.bias,
        "norm2.weight": block.norm2.weight, "norm2.bias": block.norm2.bias,
    }  # fmt: skip
    layer.load_state_dict({name: value.detach() for name, value in pairs.items()})
    return layer


def test_block_equals_the_encoder_layer_of_pytorch():
    block = Block(24, 3)
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.3)
    tokens = torch.randn(2, 5, 24)
    torch.testing.assert_close(block(tokens), reference(block, 24, 3)(tokens), atol=1e-5, rtol=1e-5)


def test_features_are_the_input_of_the_classifier_and_images_may_have_any_size():
    model = ViT(patch=4, width=16, depth=2, heads=2).build(1, 3)
    nn.init.normal_(model.fc.weight)
    for size in (8, 12):
        features, logits = model(torch.randn(2, 1, size, size))
        assert features.shape == (2, 16)
        torch.testing.assert_close(logits, model.fc(features))


def test_features_depend_on_patch_positions():
    torch.manual_seed(0)
    model = ViT(patch=4, width=16, depth=2, heads=2).build(1, 3)
    images = torch.randn(1, 1, 8, 8)
    swapped = torch.cat([images[:, :, 4:], images[:, :, :4]], dim=2)
    assert not torch.allclose(model(images).features, model(swapped).features, atol=1e-4)
    assert len(positions(7, 9, 32).unique(dim=0)) == 63


def test_images_that_are_no_multiple_of_the_patch_are_refused():
    with pytest.raises(OptionError, match="10 x 10 cannot be cut into patches of 4"):
        ViT(patch=4, width=16, depth=1, heads=2).build(1, 2)(torch.zeros(1, 1, 10, 10))
