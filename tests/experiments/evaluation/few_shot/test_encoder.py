"""What is encoded for episodes: each image and view once, with the views and the noise asked for."""

import pytest
import torch
from _few_shot_images import AUGMENT, MEAN, STD, measured, some_images

from opl.experiments.data.episodes import Episodes
from opl.experiments.evaluation.few_shot import evaluate as module
from opl.experiments.evaluation.few_shot.settings import FewShot
from opl.experiments.types import Images


def test_every_image_and_every_view_is_encoded_once_however_many_episodes():
    part, rows = some_images(), 200
    for count in (10, 400):
        _, model = measured(FewShot(queries=5, episodes=count, views=6), part)
        shown = sum(map(len, model.seen))
        drawn = Episodes(part.labels[part.rows], queries=5, episodes=count, seed=0, copies=5, views=6)
        wanted = {
            (place, view)
            for episode in map(drawn.__getitem__, range(count))
            for places, views in zip(episode.support.tolist(), episode.views.tolist(), strict=True)
            for place, own in zip(places, views, strict=True)
            for view in own
        }
        assert shown == rows + len(wanted) <= rows * 7


def test_a_view_is_the_same_whatever_else_is_encoded(monkeypatch):
    few, _ = measured(FewShot(queries=5, episodes=10))
    many, _ = measured(FewShot(queries=5, episodes=300))
    assert torch.equal(many[:10], few)
    monkeypatch.setattr(module, "CHUNK", 7)
    again, _ = measured(FewShot(queries=5, episodes=300))
    assert torch.equal(again, many)


def test_copies_anew_are_augmented_apart_and_cost_no_memory_of_all():
    _, model = measured(FewShot(queries=5, episodes=9, views=0))
    shown = [images for images in model.seen if len(images) == 25]
    assert len(shown) == 9  # an episode at a time: five classes, five copies
    copies = shown[0].reshape(5, 5, -1)
    assert all(not torch.equal(own[i], own[j]) for own in copies for i in range(5) for j in range(i))


def test_support_without_jitter_keeps_its_colors():
    part = some_images()
    values = {view: set() for view in ("plain", "no-jitter", "training")}
    for view in values:
        _, model = measured(FewShot(queries=5, episodes=5, view=view), part, augment=AUGMENT[1:])
        restored = model.seen[-1] * torch.tensor(STD)[:, None, None] + torch.tensor(MEAN)[:, None, None]
        values[view] = (restored * 255 - (restored * 255).round()).abs().max().item()
    assert values["plain"] < 1e-2
    assert values["no-jitter"] < 1e-2 < values["training"]


@pytest.mark.parametrize("unit", ["pixels", "normalized"])
def test_noise_has_the_deviation_asked_for_in_its_unit_on_support_and_queries(unit):
    part = Images(torch.full((200, 3, 20, 20), 128, dtype=torch.uint8), torch.arange(200) % 8, torch.arange(200))
    settings = FewShot(queries=5, episodes=40, noise=0.1, noise_unit=unit, clip=False, view="plain")
    _, model = measured(settings, part)
    clean = (128 / 255 - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
    scale = torch.tensor(STD)[:, None, None] if unit == "pixels" else 1.0
    queries, support = ((images - clean) * scale for images in (model.seen[0], torch.cat(model.seen[1:])))
    for noise in (queries, support):
        assert noise.std().item() == pytest.approx(0.1, rel=0.01)
        assert noise.mean().item() == pytest.approx(0, abs=1e-3)
    both = torch.stack([queries[:100].flatten(), support[:100].flatten()])
    assert abs(torch.corrcoef(both)[0, 1]) < 0.02


def test_noisy_pixels_are_cut_to_their_range_unless_told_not_to():
    part = Images(torch.zeros(200, 3, 6, 6, dtype=torch.uint8), torch.arange(200) % 8, torch.arange(200))
    lowest = {}
    for clip in (True, False):
        _, model = measured(FewShot(queries=5, episodes=5, noise=0.3, clip=clip, view="plain"), part)
        shown = torch.cat(model.seen) * torch.tensor(STD)[:, None, None] + torch.tensor(MEAN)[:, None, None]
        lowest[clip] = shown.min().item()
    assert lowest[True] == pytest.approx(0, abs=1e-6)
    assert lowest[False] < -0.5
