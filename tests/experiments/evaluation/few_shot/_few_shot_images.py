"""Images and a model of pixels for the tests of episodes."""

import torch
from torch import nn

from opl.experiments.data.augment import ColorJitter, Flip, PadCrop
from opl.experiments.evaluation.few_shot.evaluate import episode_accuracies
from opl.experiments.types import Images, Output

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.3, 0.25)
AUGMENT = (PadCrop(2), ColorJitter(0.4, 0.4, 0.4), Flip(0.5))


def some_images(classes=8, each=25, side=6):
    chance = torch.Generator().manual_seed(3)
    centers = torch.randint(110, 145, (classes, 3, side, side), generator=chance)
    labels = torch.arange(classes * each) % classes
    noise = torch.randint(-55, 55, (classes * each, 3, side, side), generator=chance)
    pixels = (centers[labels] + noise).clamp(0, 255).to(torch.uint8)
    spare = torch.zeros(2, 3, side, side, dtype=torch.uint8)  # rows of the source that are not of this part
    rows = torch.arange(classes * each) + 2
    return Images(torch.cat([spare, pixels]), torch.cat([torch.tensor([99, 99]), labels]), rows)


class Flat(nn.Module):
    """The pixels are the features; remembers how many images it was shown."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.seen = []

    def forward(self, images):
        assert not self.training
        self.seen.append(images.clone())
        return Output(images.flatten(1) * self.weight, images.flatten(1)[:, :2])


def measured(settings, part=None, model=None, augment=AUGMENT):
    model = model or Flat()
    return episode_accuracies(model, part or some_images(), [settings], augment=augment, mean=MEAN, std=STD)[0], model
