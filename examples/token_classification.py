"""OPL on every word of a tagger, without the padding. Takes seconds on a CPU, on synthetic sentences.

python examples/token_classification.py
"""

import torch
from torch import nn

import opl

PADDING = -100


def sentences(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Words 1 to 40 and their tags; a tag is shifted by 1 if the previous word is even."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(1, 41, (count, 12), generator=generator)
    shift = torch.cat([torch.zeros(count, 1, dtype=torch.long), words[:, :-1] % 2 == 0], 1).long()
    lengths = torch.randint(6, 13, (count, 1), generator=generator)
    padding = torch.arange(12) >= lengths
    return words.masked_fill(padding, 0), ((words + shift) % 4).masked_fill(padding, PADDING)


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(41, 32)
        self.mix = nn.Conv1d(32, 32, 3, padding=1)
        self.tag = nn.Linear(32, 4)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.tag(self.mix(self.embed(words).transpose(1, 2)).relu().transpose(1, 2))


def main() -> None:
    words, tags = sentences(256, 0)
    test_words, test_tags = sentences(128, 1)
    known = test_tags != PADDING
    for weight in (0.0, 1.0):
        torch.manual_seed(0)
        model = Tagger()
        criterion = opl.regularize(nn.CrossEntropyLoss(), model, weight=weight)  # the only change
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for step in range(120):
            rows = torch.arange(32) + 32 * (step % 8)
            optimizer.zero_grad()
            logits = model(words[rows]).transpose(1, 2)  # (B, C, T), the order of PyTorch's losses
            criterion(logits, tags[rows]).backward()
            optimizer.step()
        with torch.no_grad(), opl.FeatureTap(model) as tap:
            right = (model(test_words).argmax(2) == test_tags)[known].double().mean()
            geometry = opl.geometry.measure(tap.features[known], test_tags[known])
        print(f"weight {weight}: accuracy {right:.2%}, s {geometry.same:.3f}, d {geometry.other():.3f}")


if __name__ == "__main__":
    main()
