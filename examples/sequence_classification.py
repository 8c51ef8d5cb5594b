"""OPL on GPT-2's sequence classifier: the features of the last token of each sentence are detected automatically.

pip install transformers && python examples/sequence_classification.py        (seconds on a CPU, random weights)
"""

import torch
from torch import nn
from transformers import GPT2Config, GPT2ForSequenceClassification, set_seed

import opl


def sentences(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Words of four kinds with padding at the end; the label is the most frequent kind."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 4, (count,), generator=generator)
    noise = torch.rand(count, 10, generator=generator) < 0.5
    kinds = torch.where(noise, torch.randint(0, 4, (count, 10), generator=generator), labels[:, None])
    words = 1 + 4 * torch.randint(0, 10, (count, 10), generator=generator) + kinds
    lengths = torch.randint(6, 11, (count, 1), generator=generator)
    return words.masked_fill(torch.arange(10) >= lengths, 0), labels


def main() -> None:
    words, labels = sentences(256, 0)
    test_words, test_labels = sentences(256, 1)
    for weight in (0.0, 1.0):
        set_seed(0)
        config = GPT2Config(
            n_embd=32,
            n_layer=2,
            n_head=2,
            vocab_size=41,
            n_positions=16,
            num_labels=4,
            pad_token_id=0,
            bos_token_id=0,
            eos_token_id=0,
        )
        model = GPT2ForSequenceClassification(config)
        criterion = opl.regularize(nn.CrossEntropyLoss(), model, weight=weight)  # the only change
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        for step in range(80):
            rows = torch.arange(32) + 32 * (step % 8)
            optimizer.zero_grad()
            output = model(words[rows], attention_mask=(words[rows] > 0).long())
            criterion(output, labels[rows]).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad(), opl.FeatureTap(model) as tap:
            logits = model(test_words, attention_mask=(test_words > 0).long()).logits
            last = tap.features[torch.arange(256), (test_words > 0).sum(1) - 1]
            geometry = opl.geometry.measure(last, test_labels)
        accuracy = (logits.argmax(1) == test_labels).double().mean()
        print(f"weight {weight}: accuracy {accuracy:.2%}, s {geometry.same:.3f}, d {geometry.other():.3f}")


if __name__ == "__main__":
    main()
