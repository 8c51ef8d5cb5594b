"""The model card of an export: front matter for the Hub, then numbers, data, training, limits and citation."""

import shlex
from collections.abc import Collection, Sequence
from typing import Any

from ..data import CATALOG
from ..models.exported import NetworkConfig
from ..results.comparisons import describe_decision, describe_difference, format_interval
from ..results.runs import inner, list_seeds
from ..results.tables import describe_network
from ..scales import MEANING
from ..statistics import Interval
from .drawings import PICTURES
from .subject import Measurement, Subject

ACCURACIES = ("test/top1", "test/top5")  # what the Hub lists as results of these weights
CITATION = """```bibtex
@inproceedings{ranasinghe2021orthogonal,
  title     = {Orthogonal Projection Loss},
  author    = {Ranasinghe, Kanchana and Naseer, Muzammal and Hayat, Munawar and Khan, Salman and Khan, Fahad Shahbaz},
  booktitle = {Proceedings of the IEEE/CVF International Conference on Computer Vision (ICCV)},
  year      = {2021},
}
```"""


def write_card(
    subject: Subject,
    config: NetworkConfig,
    measured: Sequence[Measurement],
    pictures: Collection[str],
    *,
    license: str,
    source: str,
) -> str:
    """Return the text of `README.md`; `source` is the location of the export, a Hub id or a folder."""
    sections = {
        "Use": _use(config, source),
        "Numbers": _numbers(subject, measured),
        "Data": describe_data(subject, config),
        "Training": describe_training(subject, config),
        "Limitations": _limits(subject, config),
        "Citation": f"The experiment follows the paper (arXiv:2103.14021).\n\n{CITATION}",
    }
    drawn = [f"![{caption}]({name})\n\n*{caption}.*" for name, caption in PICTURES.items() if name in pictures]
    sections["Numbers"] = "\n\n".join([sections["Numbers"], *drawn])
    body = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items())
    front = _front_matter(config, measured, license)
    return f"---\n{front}\n---\n\n# {config.recipe}\n\n{_summary(subject, config)}\n\n{body}\n"


def _front_matter(config: NetworkConfig, measured: Sequence[Measurement], license: str) -> str:
    """Return the YAML that the Hub reads."""
    from huggingface_hub import EvalResult, ModelCardData

    known = CATALOG.get(config.data)
    hub = known.hub if known else ""
    results = [
        EvalResult(
            task_type="image-classification",
            dataset_type=hub or config.data,
            dataset_name=config.data,
            dataset_split="test",
            metric_type="accuracy",
            metric_name=measurement.title,
            metric_value=round(measurement.value, 4),
        )
        for measurement in measured
        if measurement.metric in ACCURACIES
    ]
    data = ModelCardData(
        license=license,
        library_name="opl",
        pipeline_tag="image-classification",
        tags=["orthogonal-projection-loss", "image-classification", "pytorch", "safetensors"],
        datasets=[hub] if hub else None,
        metrics=["accuracy"] if results else None,
        model_name=config.recipe,
        eval_results=results or None,
    )
    return data.to_yaml().strip()


def _summary(subject: Subject, config: NetworkConfig) -> str:
    table = f"\n\nIts table: {subject.item.title}." if subject.item else ""
    network = describe_network(inner(subject.run.recipe, "model"))
    lines = [
        f"{network}, trained with {subject.label} on {config.data}: recipe `{config.recipe}`, seed "
        f"{config.seed}, scale `{config.scale}` ({MEANING.get(config.scale, 'unknown')}).{table}"
    ]
    if subject.caveat:
        lines.append(f"**This run is in no table and is not compared with other runs**: {subject.caveat}.")
    return "\n\n".join(lines)


def _use(config: NetworkConfig, source: str) -> str:
    normalization = "they need no normalization"
    if config.mean:
        normalization = "the network normalizes them; with `normalize=False` the caller does"
    ours = (
        "```python\nfrom opl.experiments.models import from_pretrained\n\n"
        f'network = from_pretrained("{source}")\n'
        f"features, logits = network(images)  # (B, {config.channels}, {config.size}, {config.size}), "
        f"pixels in [0, 1]\n```\n\n"
        f"Images have pixels in [0, 1]: {normalization}. The class names are in `config.json`, by index."
    )
    if not config.torchvision:
        return f"{ours}\n\ntorchvision has no such network: `model.safetensors` uses the names of `opl`."
    takes = "It takes pixels in [0, 1] without normalization."
    if config.mean:
        mean, std = _channels(config.mean), _channels(config.std)
        takes = f"It takes `(images - mean) / std` with the mean {mean} and the std {std}."
    return (
        f"{ours}\n\n`model.safetensors` is a state dict in torchvision's names:\n\n```python\n"
        "from safetensors.torch import load_file\n"
        f"from torchvision.models import {config.torchvision}\n\n"
        f"network = {config.torchvision}(num_classes={config.num_classes})\n"
        f'network.load_state_dict(load_file("model.safetensors"))\n```\n\n{takes}'
    )


def _channels(values: Sequence[float]) -> str:
    return f"({', '.join(f'{value:g}' for value in values)})"


def _numbers(subject: Subject, measured: Sequence[Measurement]) -> str:
    """Return the table and an explanation."""
    if not measured:
        return "The run has no test images, so there are no numbers."
    compared = any(measurement.paired for measurement in measured)
    heading = ["metric", f"this model (seed {subject.run.seed})", "mean ± 95 % interval over seeds"]
    heading += [f"difference to {subject.baseline_label}"] if compared else []
    rows = [
        [
            measurement.title,
            format_interval(Interval(measurement.value, float("nan"), 1)),
            f"{format_interval(measurement.mean)} ({list_seeds(measurement.seeds)})",
        ]
        + ([_difference(measurement)] if compared else [])
        for measurement in measured
    ]
    table = "\n".join("| " + " | ".join(row) + " |" for row in [heading, ["---"] * len(heading), *rows])
    return "\n\n".join([table, _reading(subject, compared)])


def _difference(measurement: Measurement) -> str:
    if not measurement.paired:
        return "-"
    text = describe_difference(measurement.difference)
    if measurement.decision is not None:
        text = describe_decision(measurement.difference, measurement.decision)
    return f"{text} ({list_seeds(measurement.paired)})"


def _reading(subject: Subject, compared: bool) -> str:
    """Return how the numbers were measured and compared."""
    result: dict[str, Any] = subject.run.result
    selection = str(result.get("selection", "last"))
    lines = [f"Measured on the test images; selection: {selection}. s is the mean cosine within a class, d between."]
    if compared:
        lines.append("Differences are paired by seed, and adjusted for the number of metrics in this row.")
    elif not subject.caveat and subject.row is not None and subject.row.baseline:
        lines.append(f"There are no runs of the baseline, {subject.baseline_label}, so there is no comparison.")
    if len(subject.seeds) < 2:
        lines.append("One seed says nothing about the variation between seeds.")
    return " ".join(lines)


def _limits(subject: Subject, config: NetworkConfig) -> str:
    """Return what the network should not be used for."""
    run = subject.run
    lines = [
        f"It distinguishes the {config.num_classes} classes of {config.data} and assigns every image to one of them.",
        f"It was trained and tested only on images of this data set at {config.size}x{config.size} pixels; its "
        "accuracy on other images is unknown.",
        "Its probabilities are not calibrated and its biases are unknown: do not use it for decisions about people.",
        "Its robustness to attacks and corruptions was not measured, unless the numbers above include it.",
    ]
    if run.scale == "small":
        lines.append("It was trained at a reduced scale to compare methods, not to be the best network for its task.")
    if run.noise():
        lines.append("Some of its training labels were deliberately corrupted.")
    if "guided by the TEST set" in str(run.result.get("selection", "")):
        lines.append(
            "Its training used the test set for selection, as in the released code: its accuracy is biased upward."
        )
    return "\n".join(f"- {line}" for line in lines)


NAMED = 20  # class names on a card; config.json has all of them


def describe_data(subject: Subject, config: NetworkConfig) -> str:
    """Describe the data set, its license, the number of images per part, and the classes."""
    known, splits = CATALOG.get(config.data), subject.run.splits()
    source = f" (`{known.hub}` on the Hub)" if known and known.hub else ""
    lines = [f"{config.data}{source}: {config.num_classes} classes, {_images(splits)}."]
    if known:
        lines.append(f"License of the data: {known.license}.")
    rates = inner(subject.run.noise(), "rates")
    if rates:
        wrong = ", ".join(f"{100 * float(rate):.1f} % of {part}" for part, rate in rates.items())
        lines.append(f"Corrupted labels: {wrong}.")
    names = config.class_names
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    if names:
        lines.append(f"Classes: {', '.join(names[:NAMED])}{more}.")
    return "\n\n".join(lines)


def describe_training(subject: Subject, config: NetworkConfig) -> str:
    """Describe how to train it again, and with which code, machine, time and settings it was trained."""
    about, run = subject.run.about, subject.run
    versions, machine, commit = inner(about, "versions"), inner(about, "machine"), str(about.get("commit") or "")
    changed = " with uncommitted changes" if commit.endswith("+") else ""
    facts = {
        "Code": f"commit {commit.rstrip('+') or 'unknown'}{changed}, opl {versions.get('opl', '?')}, torch "
        f"{versions.get('torch', '?')}, Python {versions.get('python', '?')}",
        "Machine": f"{machine.get('system', '?')}, {machine.get('cores', '?')} cores, {machine.get('threads', '?')} "
        f"threads, accelerator: {machine.get('accelerator', '?')}",
        "Time": f"{run.seconds:.0f} s of training, started {about.get('started', '?')}",
        "Settings": f"{run.recipe.get('epochs', '?')} epochs, batch size {run.recipe.get('batch_size', '?')}, "
        f"precision {config.precision}, from {run.result.get('start', 'scratch')}; all of them are in `training.json`",
    }
    listed = "\n".join(f"- {name}: {text}." for name, text in facts.items())
    return f"{_command(subject)}\n\n{listed}"


def _command(subject: Subject) -> str:
    """Return the command that trains the run again; a custom run is trained from `training.json`."""
    run = subject.run
    if subject.caveat:
        return (
            "To train it again, with the settings of this run:\n\n```python\nimport json\n"
            "from opl.experiments.training.build import parse_recipe\nfrom opl.experiments.training.run import run\n\n"
            'run(parse_recipe(json.load(open("training.json"))["recipe"]), "runs")\n```'
        )
    first = [str(run.recipe["after"])] if run.recipe.get("after") else []
    commands = [f"opl train {shlex.quote(name)} --scale {run.scale} --seed {run.seed}" for name in [*first, run.name]]
    seeds = len(subject.seeds)
    every = ""
    if subject.item:
        every = f"\n\nAll rows of its table: `opl reproduce {subject.item.name} --scale {run.scale} --seeds {seeds}`."
    return "To train it again:\n\n```\n" + "\n".join(commands) + f"\n```{every}"


def _images(splits: dict[str, Any]) -> str:
    sizes = {part: splits.get(part, 0) for part in ("train", "val", "test")}
    counts = {part: len(size) if isinstance(size, list) else size for part, size in sizes.items()}
    return f"{counts['train']:,} training, {counts['val']:,} validation and {counts['test']:,} test images"
