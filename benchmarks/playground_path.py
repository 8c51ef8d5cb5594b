"""Train two small networks on three of scikit-learn's digits and write their features for the playground of the site.

    python benchmarks/playground_path.py     # writes docs/_static/playground-path.js; under a minute

The features have three dimensions. They are those of 30 test images, after every epoch.
"""

import json
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

import opl

FILE = Path(__file__).parents[1] / "docs" / "_static" / "playground-path.js"
CLASSES, PER_CLASS, EPOCHS, GAMMA = 3, 10, 40, 0.5


def train(weight: float, gamma: float) -> tuple[list[list[list[float]]], list[int]]:
    """Train once; return the features of some test images before training and after every epoch, and their labels."""
    torch.manual_seed(0)
    images, labels = load_digits(n_class=CLASSES, return_X_y=True)
    parts = train_test_split(images / 16, labels, test_size=0.3, random_state=0, stratify=labels)
    x_train, x_test, y_train, y_test = (torch.as_tensor(part) for part in parts)
    rows = torch.cat([(y_test == label).nonzero()[:PER_CLASS, 0] for label in range(CLASSES)])
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 3), nn.Linear(3, CLASSES))
    criterion = opl.regularize(nn.CrossEntropyLoss(), model, weight=weight, gamma=gamma)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    epochs = [_features(model, x_test[rows].float())]
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(x_train)).split(64):
            loss = criterion(model(x_train[chosen].float()), y_train[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        epochs.append(_features(model, x_test[rows].float()))
    return epochs, y_test[rows].tolist()


def _features(model: nn.Module, images: torch.Tensor) -> list[list[float]]:
    with torch.no_grad(), opl.FeatureTap(model) as tap:
        model(images)
        unit = nn.functional.normalize(tap.features, dim=1)
    return [[round(value, 3) for value in row] for row in unit.tolist()]


def main() -> None:
    runs = []
    for name, weight, gamma in (("CE", 0.0, GAMMA), ("CE+OPL, gamma 0.5", 1.0, GAMMA), ("CE+OPL, gamma 2", 1.0, 2.0)):
        epochs, labels = train(weight, gamma)
        runs.append({"name": name, "gamma": gamma, "labels": labels, "epochs": epochs})
        last = opl.orthogonal_projection(torch.tensor(epochs[-1]), torch.tensor(labels))
        print(f"{name}: s {last.same:.3f}, d {last.other:.3f} of the last epoch")
    FILE.write_text(f"window.OPL_PATHS = {json.dumps({'runs': runs}, separators=(',', ':'))};\n", encoding="utf-8")
    print(f"{FILE.name}: {FILE.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
