"""The model card of an export: front matter for the Hub, then numbers, data, training, limits and citation."""

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
from .numbers import Measurement
from .origin import describe_data, describe_training
from .subject import Subject

ACCURACIES = ("test/top1", "test/top5")  # what the Hub lists as results, of these very weights
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
    """The text of `README.md`.

    Args:
        subject: the run and the runs beside it.
        config: what its network is.
        measured: its numbers.
        pictures: the names of the pictures beside the card.
        license: the license of the weights, as the Hub spells it.
        source: where the export will be: a Hub id, or a folder.
    """
    sections = {
        "Use": _use(config, source),
        "Numbers": _numbers(subject, measured),
        "Data": describe_data(subject, config),
        "Training": describe_training(subject, config),
        "What it is not good for": _limits(subject, config),
        "Citation": f"The experiment follows the paper (arXiv:2103.14021).\n\n{CITATION}",
    }
    drawn = [f"![{words}]({name})\n\n*{words}.*" for name, words in PICTURES.items() if name in pictures]
    sections["Numbers"] = "\n\n".join([sections["Numbers"], *drawn])
    body = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items())
    front = _front_matter(config, measured, license)
    return f"---\n{front}\n---\n\n# {config.recipe}\n\n{_summary(subject, config)}\n\n{body}\n"


def _front_matter(config: NetworkConfig, measured: Sequence[Measurement], license: str) -> str:
    """The YAML that the Hub reads."""
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
            metric_name=each.title,
            metric_value=round(each.value, 4),
        )
        for each in measured
        if each.metric in ACCURACIES
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
        lines.append(f"**This run is in no table and is compared with no other**: {subject.caveat}.")
    return "\n\n".join(lines)


def _use(config: NetworkConfig, source: str) -> str:
    prepared = (
        "the network normalizes them itself; `normalize=False` leaves that to the caller"
        if config.mean
        else "they are not normalized, and need not be"
    )
    shape = f"(B, {config.channels}, {config.size}, {config.size})"
    ours = (
        "```python\nfrom opl.experiments.models import from_pretrained\n\n"
        f'network = from_pretrained("{source}")\n'
        f"features, logits = network(images)  # {shape}, pixels in [0, 1]\n```\n\n"
        f"Images have pixels in [0, 1]: {prepared}. The class names are in `config.json`, by index."
    )
    return f"{ours}\n\n{_torchvision(config)}"


def _torchvision(config: NetworkConfig) -> str:
    if not config.torchvision:
        return "torchvision has no network of this kind: `model.safetensors` has the names of `opl`'s own."
    takes = (
        f"It takes `(images - mean) / std` with the mean {_channels(config.mean)} and the std {_channels(config.std)}."
        if config.mean
        else "It takes pixels in [0, 1] as they are."
    )
    return (
        "`model.safetensors` is a state dict in torchvision's names:\n\n```python\n"
        "from safetensors.torch import load_file\n"
        f"from torchvision.models import {config.torchvision}\n\n"
        f"network = {config.torchvision}(num_classes={config.num_classes})\n"
        f'network.load_state_dict(load_file("model.safetensors"))\n```\n\n{takes}'
    )


def _channels(values: Sequence[float]) -> str:
    return f"({', '.join(f'{value:g}' for value in values)})"


def _numbers(subject: Subject, measured: Sequence[Measurement]) -> str:
    """The table, and below it how to read it."""
    if not measured:
        return "The run has no test images, and so no numbers of its own."
    compared = any(each.paired for each in measured)
    heading = ["metric", f"this model (seed {subject.run.seed})", "mean ± 95 % interval over seeds"]
    heading += [f"difference to {subject.baseline_label}"] if compared else []
    rows = [
        [
            each.title,
            format_interval(Interval(each.value, float("nan"), 1)),
            f"{format_interval(each.mean)} ({list_seeds(each.seeds)})",
        ]
        + ([_difference(each)] if compared else [])
        for each in measured
    ]
    table = "\n".join("| " + " | ".join(row) + " |" for row in [heading, ["---"] * len(heading), *rows])
    return "\n\n".join([table, _reading(subject, compared)])


def _difference(each: Measurement) -> str:
    if not each.paired:
        return "-"
    text = describe_difference(each.difference)
    if each.decision is not None:
        text = describe_decision(each.difference, each.decision)
    return f"{text} ({list_seeds(each.paired)})"


def _reading(subject: Subject, compared: bool) -> str:
    """What the numbers were measured on, and what the difference is not."""
    result: dict[str, Any] = subject.run.result
    selection = str(result.get("selection", "last"))
    lines = [f"Measured on the test images; selection: {selection}. s is the mean cosine within a class, d between."]
    if compared:
        lines.append("Differences are paired by seed, and adjusted for the metrics of this row, not for other rows.")
    elif not subject.caveat and subject.row is not None and subject.row.baseline:
        lines.append(f"No runs of the baseline, {subject.baseline_label}, lie beside the run: there is no comparison.")
    if len(subject.seeds) < 2:
        lines.append("One seed shows nothing about others.")
    return " ".join(lines)


def _limits(subject: Subject, config: NetworkConfig) -> str:
    """What the network should not be used for."""
    run = subject.run
    lines = [
        f"It tells apart the {config.num_classes} classes of {config.data}; every other image gets one of them too.",
        f"It was trained and tested on images of {config.size}x{config.size} pixels of this data set only: on other "
        "images its accuracy is unknown.",
        "Its probabilities were not calibrated, and nothing is known about bias: do not decide about people with it.",
        "Unless the numbers above say so, its robustness to attacks and corruptions was not measured.",
    ]
    if run.scale == "small":
        lines.append("It was trained at a reduced scale, to compare methods: it is not the best network for its task.")
    if run.noise():
        lines.append("A part of its training labels was made wrong on purpose.")
    if "guided by the TEST set" in str(run.result.get("selection", "")):
        lines.append("Its training was guided by the test set, as in the released code: its accuracy is too high.")
    return "\n".join(f"- {line}" for line in lines)
