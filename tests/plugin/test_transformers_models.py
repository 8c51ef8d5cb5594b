"""Models of `transformers` that classify words, pixels and padded text: features vs those that a hook sees."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import opl
from _small_cnn import hooked, transformer
from _textbook import agrees, textbook

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
LAYERS = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
PIXELS = torch.randn(9, 3, 32, 32, generator=torch.Generator().manual_seed(0))
WORDS = torch.randint(1, 50, (9, 6), generator=torch.Generator().manual_seed(1))
LENGTHS = torch.tensor([6, 4, 6, 3, 5, 6, 2, 6, 4])
MASK = (torch.arange(6) < LENGTHS[:, None]).long()
LABELS = torch.arange(9) % 3


def test_the_last_token_of_gpt_2_is_used_despite_padding():
    """The score is computed for every word, and the last one that is no padding is taken of each sample."""
    model = transformer(
        "GPT2ForSequenceClassification", "GPT2Config",
        n_embd=16, n_layer=1, n_head=2, vocab_size=50, n_positions=16, pad_token_id=0,
    )  # fmt: skip
    seen = hooked(model.score)
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    output = model(input_ids=WORDS * MASK, attention_mask=MASK)
    features = seen[0][torch.arange(9), LENGTHS - 1]
    agrees(model, criterion(output, LABELS), F.cross_entropy(output.logits, LABELS) + textbook(features, LABELS))


@pytest.mark.parametrize("shape", ["words last", "classes second", "flat", "without the first word"])
def test_every_token_has_its_vector(shape):
    model = transformer("BertForTokenClassification", "BertConfig", **LAYERS, vocab_size=50)
    seen = hooked(model.classifier)
    labels = torch.randint(0, 3, WORDS.shape, generator=torch.Generator().manual_seed(2)).where(MASK > 0, -100)

    def flat(logits, target):
        return F.cross_entropy(logits.reshape(-1, 3), target.reshape(-1))

    criterion = opl.regularize(flat if shape == "words last" else nn.CrossEntropyLoss(), model)
    output = model(input_ids=WORDS, attention_mask=MASK)
    words = slice(1, None) if shape == "without the first word" else slice(None)
    given = {
        "words last": (output, labels),
        "classes second": (output.logits.transpose(1, 2), labels),
        "flat": (output.logits.flatten(0, 1), labels.flatten()),
        "without the first word": (output.logits[:, words].reshape(-1, 3), labels[:, words].reshape(-1)),
    }[shape]
    rows, targets = seen[0][:, words].reshape(-1, 16), labels[:, words].reshape(-1)
    agrees(model, criterion(*given), flat(output.logits[:, words], targets) + textbook(rows, targets))


@pytest.mark.parametrize("size", [8, 32])
def test_every_pixel_of_segformer_has_its_vector(size):
    """At the size of its map, and enlarged to that of the image, where each vector has the nearest label."""
    model = transformer(
        "SegformerForSemanticSegmentation", "SegformerConfig",
        hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], num_attention_heads=[1, 1, 2, 2], decoder_hidden_size=16,
        drop_path_rate=0.0,
    )  # fmt: skip
    seen = hooked(model.decode_head.classifier)
    labels = torch.randint(0, 3, (9, size, size), generator=torch.Generator().manual_seed(3))
    labels[:, :2] = 255
    criterion = opl.regularize(nn.CrossEntropyLoss(ignore_index=255), model)
    logits = model(PIXELS).logits
    if size > 8:
        logits = F.interpolate(logits, size=(size, size), mode="bilinear", align_corners=False)
    middle = size // 16  # the label in the middle of each of the 8 x 8 vectors' places
    targets = labels[:, middle :: size // 8, middle :: size // 8].reshape(-1)
    rows = seen[0].movedim(1, -1).reshape(-1, 16)
    expected = F.cross_entropy(logits, labels, ignore_index=255) + textbook(rows, targets, ignore_index=255)
    agrees(model, criterion(logits, labels), expected)


def test_contrastive_clip_is_refused():
    config = transformers.CLIPConfig(
        vision_config={**LAYERS, "image_size": 32, "patch_size": 16}, text_config={**LAYERS, "vocab_size": 50}
    )
    model = transformers.CLIPModel(config)
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    output = model(input_ids=WORDS, attention_mask=MASK, pixel_values=PIXELS)
    with pytest.raises(opl.errors.TapError, match=r"product outside.*features="):
        criterion(output.logits_per_image, torch.arange(9))
