"""The memory layout in which convolutions of a CPU are fastest."""

import torch

from ..models import Network


def to_channels_last(network: Network) -> Network:
    """The same network, its weights in channels_last."""
    moved: Network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stubs lack it
    return moved
