"""Run folders as training leaves them, synthetic in a moment: for the tests of the page."""

import json
import math
from pathlib import Path

import numpy as np

from _vouched import metric_lines, vouch
from opl.experiments.item import Item, Row

CLASSES = (
    "apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle",
    "bowl", "boy", "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle",
)  # fmt: skip
METRICS = {"test/top1": "top-1 %", "test/top5": "top-5 %", "test/s": "s", "test/d": "d"}
ITEM = Item(
    name="table-1",
    title="CIFAR-100, ResNet-56",
    dataset="cifar100",
    metrics=METRICS,
    rows=(
        Row("CE", "cifar100-ce", {"test/top1": 72.40, "test/top5": 92.68}),
        Row("CE+OPL", "cifar100-opl", {"test/top1": 73.52, "test/top5": 93.07}, "cifar100-ce"),
        Row("Center", "cifar100-center", {"test/top1": 72.72, "test/top5": 93.06}, "cifar100-ce"),
        Row("OLE", "cifar100-ole", {"test/top1": 71.95, "test/top5": 92.52}, "cifar100-ce"),
    ),
    note="The paper's single runs, the best test epoch; ours are the last epoch's.",
)
SEARCH = Item(
    name="figure-6",
    title="CIFAR-100, accuracy over the weight of OPL",
    dataset="cifar100",
    metrics={"test/top1": "top-1 %"},
    rows=(
        *ITEM.rows[:2],
        *(
            Row(f"CE+OPL, weight {weight:g}, gamma {gamma:g}", f"cifar100-opl-{weight:g}-{gamma:g}", {}, "cifar100-ce")
            for weight in (0.1, 0.5, 2.0)
            for gamma in (0.5, 1.0)
        ),
    ),
    figure="sweeps",
    home="table-1",
)
PLANE = Item(
    name="figure-2",
    title="MNIST, features in two dimensions",
    dataset="mnist",
    metrics={"test/top1": "top-1 %", "test/s": "s", "test/d": "d"},
    rows=(Row("CE", "mnist-2d-ce", {}), Row("CE+OPL", "mnist-2d-opl", {}, "mnist-2d-ce")),
    figure="plane",
)
ITEMS = {item.name: item for item in (ITEM, SEARCH, PLANE)}
GAINS = {"ce": 0.0, "opl": 2.1, "center": 0.4, "ole": -1.6}


def write_run(
    out: Path,
    name: str,
    seed: int = 0,
    *,
    gain: float = 0.0,
    scale: str = "small",
    epochs: int = 10,
    done: bool = True,
    error: str = "",
    method: dict | None = None,
    class_names: tuple[str, ...] = CLASSES,
    outputs: bool = False,
    feature_dim: int = 16,
    pull: float = 0.5,
) -> Path:
    """One run's folder; `gain` is added to its accuracy, `pull` is how alike its classes are (0: at right angles)."""
    chance = np.random.default_rng([seed, *name.encode()])
    path = out / name / f"seed-{seed}"
    path.mkdir(parents=True)
    recipe = {
        "kind": "Recipe",
        "name": name,
        "data": {"kind": "Cifar100"},
        "model": {"kind": "CifarResNet", "depth": 8},
        "method": method or {"kind": "CrossEntropy"},
        "epochs": epochs,
        "batch_size": 128,
        "selection": "last",
        "seed": seed,
        "scale": scale,
    }
    machine = {"system": "Linux-6.1-x86_64", "processor": "x86_64", "cores": 2, "threads": 1, "accelerator": "none"}
    about = {
        "recipe": recipe,
        **_opl_of(recipe["method"]),
        "versions": {"opl": "0.1.0", "torch": "2.13.0+cpu", "python": "3.11.7"},
        "commit": "06f8644cf3",
        "machine": machine,
        "started": f"2026-11-15T21:{seed:02d}:44Z",
    }
    (path / "recipe.json").write_text(json.dumps(about))
    parts = {"train": 9011 + seed, "val": list(range(989)), "test": 2000}
    splits = {**parts, "class_names": class_names, "groups": _groups(class_names)}
    (path / "splits.json").write_text(json.dumps(splits))
    shift = gain + 0.6 * math.sin(seed) + chance.normal() * 0.25
    seen = epochs if done else max(1, epochs // 2)
    records = [_record(epoch, epochs, shift, pull, chance) for epoch in range(seen)]
    (path / "metrics.jsonl").write_text(metric_lines(records))
    if error:
        (path / "error.json").write_text(json.dumps({"error": error}))
    if outputs:
        np.savez_compressed(path / "test.npz", **_outputs(chance, len(class_names), feature_dim, pull, gain))
    if done:
        top1 = 54.0 + shift
        same = min(0.98, 0.87 + gain / 50)
        numbers = {
            "test/top1": top1,
            "test/top5": top1 + 34.2,
            "test/s": same,
            "test/d": 0.3 + pull + chance.normal() * 1e-3,
        }
        result = {**numbers, "val/top1": top1 - 0.4, "scale": scale, "epochs": epochs, "seconds": 161.5 + seed}
        (path / "result.json").write_text(json.dumps(result))
        (path / "model.safetensors").write_bytes(f"{name} {seed}".encode())
    return vouch(path, done=done)


def write_table(out: Path, seeds: int = 3, **more) -> Path:
    """All rows of table 1, with outputs."""
    for name, gain in GAINS.items():
        for seed in range(seeds):
            pull = 0.15 if name == "opl" else 0.5
            kind = opl(1.0) if name == "opl" else {"kind": "CrossEntropy" if name == "ce" else "Composite"}
            write_run(out, f"cifar100-{name}", seed, gain=gain, pull=pull, method=kind, outputs=True, **more)
    return out


def write_everything(out: Path) -> Path:
    """A folder for which every section of the page has something to show."""
    write_table(out)
    for row in SEARCH.rows[2:]:
        weight, gamma = map(float, row.recipe.split("-")[-2:])
        for seed in range(3):
            gain = 2.1 - abs(math.log(weight)) * 0.6 - (gamma - 0.5) * 0.8
            write_run(out, row.recipe, seed, gain=gain, method=opl(weight, gamma))
    for name, pull in (("ce", 0.4), ("opl", 0.0)):
        digits = tuple(map(str, range(10)))
        kind = opl(1.0) if name == "opl" else None
        write_run(
            out, f"mnist-2d-{name}", method=kind, class_names=digits, outputs=True, feature_dim=2, pull=pull, gain=40
        )
    write_run(out, "cifar100-center", 7, done=False)
    sentence = "the loss is not finite in epoch 4, step 7 (projection): lower the learning rate."
    write_run(out, "cifar100-ole", 8, done=False, error=sentence)
    return out


def write_novel(path: Path, classes: int = 26) -> None:
    """Features of classes that a run never saw, around a direction each, beside what it says of the test images."""
    chance = np.random.default_rng(list(path.as_posix()[-20:].encode()))
    labels = np.arange(12 * classes) % classes
    features = chance.normal(size=(classes, 16))[labels] + 0.3 * chance.normal(size=(len(labels), 16))
    names = [f"novel {place}" for place in range(classes)]
    np.savez_compressed(path / "novel.npz", features=features.astype(np.float16), labels=labels, class_names=names)
    vouch(path)


def opl(weight: float, gamma: float = 0.5) -> dict:
    """The settings of CE+OPL."""
    return {"kind": "CrossEntropyOPL", "weight": weight, "gamma": gamma, "form": "mean_abs"}


def _opl_of(method: dict) -> dict:
    """What a run says of OPL in its method, and of the method without it."""
    if method["kind"] != "CrossEntropyOPL":
        return {"opl": None, "baseline": method}
    return {"opl": {name: method[name] for name in ("weight", "gamma", "form")}, "baseline": {"kind": "CrossEntropy"}}


def _groups(class_names: tuple[str, ...]) -> list[int]:
    return [place % 4 for place in range(len(class_names))]


def _record(epoch: int, epochs: int, shift: float, pull: float, chance: np.random.Generator) -> dict:
    way = 1 - math.exp(-4 * (epoch + 1) / epochs)
    record = {"epoch": epoch, "train/loss": 3.2 - 1.9 * way + chance.normal() * 0.03, "seconds": 16.1}
    if epoch % 2 == 1 or epoch + 1 == epochs:
        record["val/top1"] = (53.6 + shift) * way + chance.normal() * 0.5
        record |= {"s": 0.55 + 0.32 * way + chance.normal() * 0.01, "d": (0.3 + pull) * (1.2 - 0.2 * way)}
        record["orthogonality"] = 0.2 * record["d"] + 0.1 * record["s"]
    return record


def _outputs(chance: np.random.Generator, classes: int, feature_dim: int, pull: float, gain: float) -> dict:
    """A test set of 400 images: blobs of color, whose features lie around the direction of their class."""
    count = 400
    labels = np.arange(count) % classes
    directions = np.abs(chance.normal(size=(classes, feature_dim))) * pull + np.eye(classes, feature_dim)
    if feature_dim == 2:
        angles = np.arange(classes) * 2 * np.pi / classes
        directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    features = directions[labels] * chance.uniform(2, 9, size=(count, 1))
    features += chance.normal(size=features.shape) * (0.2 + pull)
    units = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    rank = chance.random((count, classes))
    rank[np.arange(count), labels] += np.where(chance.random(count) < 0.55 + gain / 50, 1.0, -0.2)
    top5 = np.argsort(-rank, axis=1)[:, :5]
    p5 = np.sort(chance.dirichlet(np.full(6, 0.7), size=count)[:, :5], axis=1)[:, ::-1]
    return {
        "labels": labels.astype(np.int32),
        "top5": top5.astype(np.int16),
        "p5": p5.astype(np.float16),
        "features": features.astype(np.float16),
        "similarity": (units @ units.T).astype(np.float32),
        "pixels": _pictures(labels[:120], classes),
    }


def _pictures(labels: np.ndarray, classes: int) -> np.ndarray:
    grid = np.stack(np.meshgrid(np.linspace(0, 1, 32), np.linspace(0, 1, 32)), axis=-1)
    chance = np.random.default_rng(5)
    pictures = []
    for label in labels:
        ground = np.linspace(30, 90, 32)[:, None, None] * np.array([1.0, 1.2, 1.5])
        middle, size = chance.uniform(0.35, 0.65, 2), chance.uniform(0.03, 0.07)
        blob = np.exp(-((grid - middle) ** 2).sum(-1) / size)[..., None]
        color = 255 * np.array([label / classes, 0.7, 1 - label / classes])
        pictures.append(np.clip(ground + blob * color, 0, 255))
    return np.array(pictures).astype(np.uint8)
