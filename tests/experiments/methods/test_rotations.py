"""Rotations, the first generation of SKD, vs loops by hand."""

import math

import numpy as np
import pytest
import torch
from _taught_net import CLASSES, TinyNet, built, small_batch

from _divergence import softmax
from opl import orthogonal_projection
from opl.experiments.methods import OPL, Rotations
from opl.experiments.methods.rotations import append_rotations
from opl.experiments.types import Batch


def test_rotations_equal_those_of_numpy():
    batch = small_batch()
    four = append_rotations(batch)
    for turns in range(4):
        for row in range(6):
            expected = np.rot90(batch.images[row, 0].numpy(), turns)
            np.testing.assert_array_equal(four.images[6 * turns + row, 0].numpy(), expected)
    assert four.labels.tolist() == batch.labels.tolist() * 4
    assert four.rows.tolist() == batch.rows.tolist() * 4
    assert four.sample_weight == batch.sample_weight / 4


def test_rotated_images_keep_their_memory_format():
    batch = small_batch()._replace(images=torch.rand(2, 3, 8, 8).contiguous(memory_format=torch.channels_last))
    assert append_rotations(batch).images.is_contiguous(memory_format=torch.channels_last)


def test_loss_equals_the_sum_of_both_entropies():
    model, batch, objective = TinyNet(), small_batch(), built(Rotations(weight=2.0))
    layer = objective.terms["rotation"].fc
    assert (layer.in_features, layer.out_features) == (CLASSES, 4)  # from the class logits, not from the features
    entropy = binary = 0.0
    for turns in range(4):
        for image, label in zip(batch.images, batch.labels.tolist(), strict=True):
            logits = model(torch.from_numpy(np.rot90(image[0].numpy(), turns).copy())[None, None]).logits[0]
            entropy -= math.log(softmax(logits.tolist())[label])
            for turn, score in enumerate((layer.weight @ logits + layer.bias).tolist()):
                p = 1 / (1 + math.exp(-score))
                binary -= math.log(p if turn == turns else 1 - p)
    terms = objective(model, batch)
    assert terms.parts["entropy"].item() == pytest.approx(entropy / 24)
    assert terms.parts["rotation"].item() == pytest.approx(binary / 24 / 4)
    assert terms.total.item() == pytest.approx(entropy / 24 + 2 * binary / 96)
    slopes = torch.autograd.grad(terms.parts["rotation"], (model.fc.weight, layer.weight))
    assert all(slope.any() for slope in slopes)


def test_opl_uses_all_four_rotations():
    model, batch = TinyNet(), small_batch()
    features = torch.cat([model(batch.images.rot90(turns, (2, 3))).features for turns in range(4)])
    expected = orthogonal_projection(features, batch.labels.repeat(4), gamma=0.5, algorithm="pairs").loss
    terms = built(Rotations(auxiliary=(OPL(weight=0.7),)))(model, batch)
    torch.testing.assert_close(terms.parts["projection"], expected)
    rest = terms.parts["entropy"] + 2 * terms.parts["rotation"]
    torch.testing.assert_close(terms.total, rest + 0.7 * expected)


def test_uneven_shards_sum_to_the_whole_batch():
    model, batch, objective = TinyNet(), small_batch(), built(Rotations())
    whole = objective(model, batch).total
    parts = [
        Batch(batch.images[s], batch.labels[s], batch.rows[s], batch.sample_weight) for s in (slice(0, 1), slice(1, 6))
    ]
    torch.testing.assert_close(sum(objective(model, part).total for part in parts), whole)
