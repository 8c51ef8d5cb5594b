"""transformers' ResNet as an independent network with the same formula, and its names in torchvision's spelling."""

import re

import torch

LAYOUTS = {
    18: ("basic", [2, 2, 2, 2], [64, 128, 256, 512]),
    50: ("bottleneck", [3, 4, 6, 3], [256, 512, 1024, 2048]),
}


def torchvisions_name(name: str) -> str:
    """The name that torchvision gives to a weight of transformers' ResNet."""
    name = name.replace("embedder.embedder.convolution", "conv1").replace("embedder.embedder.normalization", "bn1")
    name = re.sub(r"encoder\.stages\.(\d)\.layers\.(\d+)", lambda m: f"layer{int(m[1]) + 1}.{m[2]}", name)
    name = re.sub(r"layer\.(\d)\.convolution", lambda m: f"conv{int(m[1]) + 1}", name)
    name = re.sub(r"layer\.(\d)\.normalization", lambda m: f"bn{int(m[1]) + 1}", name)
    name = name.replace("shortcut.convolution", "downsample.0").replace("shortcut.normalization", "downsample.1")
    return name.removeprefix("resnet.").replace("classifier.1", "fc")


def transformers_config(depth: int, **more):
    from transformers import ResNetConfig

    kind, depths, widths = LAYOUTS[depth]
    return ResNetConfig(layer_type=kind, depths=depths, hidden_sizes=widths, embedding_size=64, **more)


def disturb_batch_norms(state: dict) -> None:
    """Change every batch norm, so that none does nothing."""
    with torch.no_grad():
        for name, value in state.items():
            if ("normalization" in name or "bn" in name or "downsample.1" in name) and value.is_floating_point():
                value.add_(torch.rand_like(value) * 0.2)
