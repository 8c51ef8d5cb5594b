"""Cross-entropy with and without OPL on scikit-learn's digits, in a plain PyTorch loop. Ten seconds on one core.

python examples/plain_loop.py
"""

import argparse
from statistics import mean

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

import opl


def digits():
    """1,797 images of 8 x 8 pixels in [0, 1]: half for training, half for testing, always the same split."""
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(images / 16, labels, test_size=0.5, random_state=0, stratify=labels)
    x_train, x_test, y_train, y_test = (torch.as_tensor(part) for part in parts)
    return x_train.float().view(-1, 1, 8, 8), y_train, x_test.float().view(-1, 1, 8, 8), y_test


def network() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)),
    )


def run(weight: float, seed: int, epochs: int):
    """Train once; with the same seed both losses have the same initial weights and batches."""
    torch.manual_seed(seed)
    x_train, y_train, x_test, y_test = digits()
    model = network()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model, weight=weight)  # 1. build it
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        for rows in torch.randperm(len(x_train)).split(64):
            loss = criterion(model(x_train[rows]), y_train[rows])  # 2. call it
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    model.eval()
    with torch.no_grad(), opl.FeatureTap(model) as tap:
        accuracy = (model(x_test).argmax(1) == y_test).double().mean().item()
        geometry = opl.geometry.measure(tap.features, y_test)
    return accuracy, geometry.same, geometry.other()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # more threads do not help a network this small, and stall if the cores are busy
    print("test set: accuracy; s, same-class cosine (higher is better); d, other-class cosine (lower is better)")
    print(f"{'loss':<8}{'seed':>6}{'accuracy':>10}{'s':>8}{'d':>8}")
    results = {}
    for name, weight in (("CE", 0.0), ("CE+OPL", 1.0)):
        results[name] = [run(weight, seed, arguments.epochs) for seed in range(arguments.seeds)]
        for seed, (accuracy, same, other) in enumerate(results[name]):
            print(f"{name:<8}{seed:>6}{accuracy:>10.2%}{same:>8.3f}{other:>8.3f}", flush=True)
    for name, rows in results.items():
        accuracy, same, other = (mean(column) for column in zip(*rows, strict=True))
        print(f"{name:<8}{'mean':>6}{accuracy:>10.2%}{same:>8.3f}{other:>8.3f}")
    print("Two seeds show the geometry; they are too few to claim a difference in accuracy.")


if __name__ == "__main__":
    main()
