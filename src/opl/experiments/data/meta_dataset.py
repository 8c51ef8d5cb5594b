"""Meta-Dataset: sources with training classes, and test classes from which episodes of varying size are drawn.

Each source is a data set whose classes a specification names: a JSON file in our format (see docs/meta-dataset.md) or
in the format of Meta-Dataset itself (`dataset_spec.json`). `load` returns the training classes, `novel_classes` the
others.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from itertools import chain, count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ..._ranges import CountOrZero, Fraction, Name, Pixels, SeedOrOfRun
from ...errors import DataError, OptionError, did_you_mean
from ..files import read_json
from ..types import Augmentation, DataSet, Images, Splits, derived, empty_part
from .augment import ColorJitter, Flip, PadCrop, enabled
from .episode_sampling import Hierarchy
from .few_shot import check_part, hold_out
from .read.catalog import CATALOG, CatalogEntry
from .read.few_shot_files import PARTS
from .read.listing import ALL, ClassChoice
from .split import subset

if TYPE_CHECKING:
    from .read.serve import DecodedData

FOLDER = "meta-dataset"  # in $OPL_DATA, may hold all sources
NAMES = ("specification.json", "dataset_spec.json")
"""Names of specification files next to the images."""
FIELDS = ("name", "data", "files", "columns", "invert", "splits", "groups", "children")
OFFICIAL = {  # training, validation and test classes
    "ilsvrc_2012": (712, 158, 130),
    "omniglot": (883, 81, 659),
    "aircraft": (70, 15, 15),
    "cu_birds": (140, 30, 30),
    "dtd": (33, 7, 7),
    "quickdraw": (241, 52, 52),
    "fungi": (994, 200, 200),
    "vgg_flower": (71, 15, 16),
    "traffic_sign": (0, 0, 43),
    "mscoco": (0, 40, 40),
}
"""The sources of Meta-Dataset."""
_META_PARTS = {"TRAIN": "train", "VALID": "val", "TEST": "test"}


@dataclass(frozen=True)
class Specification:
    """The classes of a data set, by part, and which of them are related."""

    name: str
    splits: Mapping[str, tuple[str, ...]]
    """The classes of `train`, `val` and `test`."""
    groups: tuple[tuple[str, ...], ...] = ()
    """Sets of related classes; an episode takes its classes from one set. Empty if any classes may be together."""
    whole: bool = False
    """Whether an episode takes all classes of a set, at most 50, instead of a random number of them."""
    data: str = ""
    """The data set whose files hold the images; empty if it has the same name."""
    files: tuple[str, ...] = ("train",)
    """The splits of Parquet files to read."""
    columns: tuple[str, ...] = ()
    """Columns of Parquet files that form the class name, joined by '/'; empty for only the label."""
    invert: bool = False
    """Whether black and white are exchanged."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names that files may use for classes."""

    @property
    def classes(self) -> tuple[str, ...]:
        """All classes: first `train`, then `val`, then `test`."""
        return tuple(name for part in PARTS for name in self.splits[part])

    def sets_of(self, part: str) -> tuple[tuple[int, ...], ...]:
        """Return the sets of related classes of a part, numbered within it; without duplicates."""
        number = {name: index for index, name in enumerate(self.splits[part])}
        sets = (tuple(sorted({number[name] for name in group if name in number})) for group in self.groups)
        return tuple(dict.fromkeys(classes for classes in sets if classes))


@dataclass(frozen=True)
class MetaDataSet(DataSet):
    """Base class of the sources, with everything that an evaluation on several sources needs."""

    source: Name = "omniglot"
    """The name of the source."""
    size: Pixels = 84
    """Height and width that images are resized to."""
    padding: CountOrZero = 8
    """Pad by this many pixels and crop at a random position; 0 disables it."""
    flip: Fraction = 0.0
    """Probability of a horizontal flip; SUR has none."""
    jitter: Fraction = 0.2
    """Strength of contrast and saturation jitter; 0 disables it."""
    hue: Fraction = 0.03
    """Largest change of the hue, as a part of the circle; 0 disables it."""

    channels: ClassVar[int] = 3
    mean: ClassVar[tuple[float, ...]] = (0.5, 0.5, 0.5)
    std: ClassVar[tuple[float, ...]] = (0.5, 0.5, 0.5)

    @property
    def augment(self) -> tuple[Augmentation, ...]:
        """Crop, flip and jitter; each can be disabled."""
        jitter = ColorJitter(0.0, self.jitter, self.jitter, self.hue)
        return enabled(PadCrop(self.padding), Flip(self.flip), jitter)

    def of(self, source: str) -> Self:
        """Return another source in the same form."""
        return replace(self, source=source)

    def hierarchy(self, part: str) -> Hierarchy | None:
        """Return which classes of a part are related; None if any classes may be in one episode."""
        raise NotImplementedError(f"{type(self).__name__} has no hierarchy: define it in the class.")


@dataclass(frozen=True)
class MetaSource(MetaDataSet):
    """A source read from files: one HDF5 file per class, images as '<class>/<image>', or Parquet files.

    `specification.json`, or Meta-Dataset's `dataset_spec.json`, next to them names the classes of each split; some
    come with this package. If images of training classes are held out, a run's test accuracy is the accuracy on them.

    Example:
        >>> MetaSource(source="omniglot-8", size=32, padding=2).num_classes
        143
    """

    root: str = ""
    """Its folder; if empty, $OPL_DATA is searched, also its folder 'meta-dataset', and then the Hub."""
    specification: str = ""
    """The specification file; if empty, the one next to the files, or the one in this package."""
    holdout: CountOrZero = 0
    """Images of each training class held out for testing."""
    per_class: CountOrZero = 0
    """Maximum number of training images per class; 0 uses all."""
    most: CountOrZero = 0
    """Maximum number of images per class to decode, evenly spread; 0 decodes all. Quick Draw has 50 million."""
    split_seed: SeedOrOfRun = 0
    """Random seed of the held-out images, equal for all runs; -1 uses the run's seed."""

    name = derived(lambda data: data.source)
    num_classes = derived(lambda data: len(data._specification().splits["train"]))

    def of(self, source: str) -> Self:
        """Return another source in the same form, searched for in $OPL_DATA."""
        return replace(self, source=source, root="", specification="")

    def load(self, seed: int) -> Splits:
        """Load the training classes: `train`, an empty `val`, and the held-out images as `test`."""
        self.check()
        known = self._specification()
        names = known.splits["train"]
        if len(names) < 2:
            raise OptionError(f"{self.source} has {len(names)} training classes: use it for testing only.")
        decoded = self._read(known)
        train = decoded.parts[ALL].classes(0, len(names))
        labels = train.labels[train.rows]
        seed = seed if self.split_seed == -1 else self.split_seed
        fit, held = hold_out(labels, self.holdout, seed=seed)
        fit = fit[subset(labels[fit], per_class=self.per_class, seed=seed)]
        fit_part, held_part = (replace(train, rows=train.rows[rows]) for rows in (fit, held))
        return Splits(fit_part, empty_part(train), held_part, names, decoded.source)

    def novel_classes(self, part: str = "test") -> tuple[Images, tuple[str, ...]]:
        """Return all images of the validation or test classes, numbered from 0, and the class names."""
        check_part(part)
        self.check()
        known = self._specification()
        names = known.splits[part]
        first = known.classes.index(names[0]) if names else 0
        return self._read(known).parts[ALL].classes(first, first + len(names)), names

    def hierarchy(self, part: str) -> Hierarchy | None:
        """Return which classes of a part are related, by the specification."""
        known = self._specification()
        return Hierarchy(known.sets_of(part), known.whole) if known.groups else None

    def _specification(self) -> Specification:
        candidates = [folder / name for folder in self._folders() for name in NAMES]
        files = [Path(self.specification).expanduser()] if self.specification else filter(Path.is_file, candidates)
        return load_specification(self.source, next(iter(files), None))

    def _folders(self) -> list[Path]:
        """Return the folders that may hold the source: `root`, or folders in $OPL_DATA, Meta-Dataset's first."""
        if self.root:
            return [Path(self.root).expanduser()]
        data = os.environ.get("OPL_DATA")
        return [Path(data).expanduser() / name / self.source for name in (FOLDER, "")] if data else []

    def _read(self, known: Specification) -> "DecodedData":
        """Return all images of the specification's classes, as one part."""
        from .read import find, serve

        data, parts = known.data or self.source, dict.fromkeys(known.files, 0)
        license = "see google-research/meta-dataset for where to get it"
        entry = CATALOG.get(data) or CatalogEntry(data, license=license, other_columns=known.columns)
        entry = replace(entry, images=parts, mode="RGB", size=self.size, lists={}, made_of="", idx=False)
        roots = [str(folder) for folder in self._folders()[:1] if self.root or folder.is_dir()]
        located = find.find_entry(entry, roots[0] if roots else "")
        choice = ClassChoice(known.classes, known.aliases, known.columns, known.invert, self.most)
        return serve.load_files(replace(located, layout=serve.CLASSES, choice=choice))


# Specifications


def built_in() -> tuple[str, ...]:
    """Return the names of the specifications in this package."""
    names = (entry.name for entry in files(__package__).joinpath("specifications").iterdir())
    return tuple(sorted(name.removesuffix(".json") for name in names if name.endswith(".json")))


def load_specification(name: str, file: Path | None) -> Specification:
    """Read a specification from a file, or the one of this name in this package."""
    if file is None:
        if name not in built_in():
            raise DataError(
                f"there is no specification of {name!r}: put {' or '.join(map(repr, NAMES))} into its folder "
                f"(--data.root, or 'meta-dataset/{name}' in $OPL_DATA), or use a source whose specification comes with "
                f"this package: {', '.join(map(repr, built_in()))}."
            )
        file = Path(str(files(__package__).joinpath("specifications", f"{name}.json")))
    try:
        known = parse_specification(read_json(file), name)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{str(file)!r} is not a specification of {name} ({error}): use a JSON file that names the classes of "
            "each split, as docs/meta-dataset.md describes."
        ) from error
    counts = tuple(len(known.splits[part]) for part in PARTS)
    if known.name in OFFICIAL and name == known.name and counts != OFFICIAL[name]:
        actual, official = ("/".join(map(str, numbers)) for numbers in (counts, OFFICIAL[name]))
        raise DataError(
            f"{str(file)!r} gives {name} {actual} classes for training, validation and testing, where Meta-Dataset has "
            f"{official}: use its split, or another name for yours."
        )
    return known


def parse_specification(content: Any, name: str) -> Specification:
    """Build a specification from the content of a JSON file.

    Raises:
        ValueError, LookupError, TypeError or AttributeError: it is not a specification.
    """
    if not isinstance(content, dict):
        raise ValueError(f"it holds a {type(content).__name__} instead of an object")
    known = _parse_own(content, name) if "splits" in content else _parse_meta_dataset(content, name)
    classes = known.classes
    if len(set(classes)) < len(classes):
        twice = next(name for index, name in enumerate(classes) if name in classes[:index])
        raise ValueError(f"the class {twice!r} is named twice")
    return known


def _parse_own(content: dict[str, Any], name: str) -> Specification:
    if unknown := [key for key in content if key not in FIELDS]:
        raise ValueError(did_you_mean("field", unknown[0], FIELDS))
    if "groups" in content and "children" in content:
        raise ValueError("it has both groups and children, but an episode can use only one of them")
    splits = {part: _names(content["splits"].get(part, ())) for part in PARTS}
    classes = {name for part in splits.values() for name in part}
    whole = "children" in content
    listed = content.get("groups", {}).values()
    groups = leaf_sets(content["children"], classes) if whole else tuple(map(_names, listed))
    return Specification(
        str(content.get("name", name)),
        splits,
        groups,
        whole,
        str(content.get("data", "")),
        _names(content.get("files", ("train",))),
        _names(content.get("columns", ())),
        bool(content.get("invert", False)),
    )


def _parse_meta_dataset(content: dict[str, Any], name: str) -> Specification:
    """Read Meta-Dataset's own format: flat classes, classes of superclasses (Omniglot), or a graph (ImageNet)."""
    source = str(content.get("name", name))
    names = {str(number): str(class_name) for number, class_name in content.get("class_names", {}).items()}
    if "split_subgraphs" in content:
        return _parse_graph(content["split_subgraphs"], source)
    if "superclasses_per_split" not in content:
        sizes = {part: int(content["classes_per_split"].get(key, 0)) for key, part in _META_PARTS.items()}
        return Specification(source, _count_off(sizes), aliases=names)
    sizes_of = content["classes_per_superclass"]
    groups = tuple(_count_off({index: int(sizes_of[str(index)]) for index in range(len(sizes_of))}).values())
    remaining, splits = iter(groups), {}
    for key, part in _META_PARTS.items():
        chosen = islice(remaining, int(content["superclasses_per_split"].get(key, 0)))
        splits[part] = tuple(chain.from_iterable(chosen))
    return Specification(source, splits, groups, aliases=names)


def _parse_graph(graphs: Mapping[str, Sequence[Mapping[str, Any]]], name: str) -> Specification:
    splits: dict[str, tuple[str, ...]] = dict.fromkeys(PARTS, ())
    groups: list[tuple[str, ...]] = []
    for key, part in _META_PARTS.items():
        children = {str(node["wn_id"]): _names(node["children_ids"]) for node in graphs.get(key, ())}
        splits[part] = tuple(sorted(node for node, below in children.items() if not below))
        groups += leaf_sets({node: below for node, below in children.items() if below}, set(splits[part]))
    return Specification(name, splits, tuple(groups), whole=True)


def leaf_sets(children: Mapping[str, Iterable[str]], leaves: set[str]) -> tuple[tuple[str, ...], ...]:
    """Return the leaves below each inner node of a graph without cycles, without duplicates.

    Example:
        >>> leaf_sets({"animal": ["cat", "bird"], "bird": ["owl", "tit"], "top": ["animal"]}, {"cat", "owl", "tit"})
        (('cat', 'owl', 'tit'), ('owl', 'tit'))
    """
    leaves_of: dict[str, frozenset[str]] = {}

    def below(node: str, above: tuple[str, ...]) -> frozenset[str]:
        if node in above:
            raise ValueError(f"the node {node!r} is below itself")
        if node not in leaves_of:
            parts = [below(str(child), (*above, node)) for child in children.get(node, ())]
            leaves_of[node] = frozenset([node] if node in leaves else ()).union(*parts)
        return leaves_of[node]

    sets = [tuple(sorted(below(str(node), ()))) for node in sorted(children)]
    return tuple(dict.fromkeys(filter(None, sets)))


def _count_off(sizes: Mapping[Any, int]) -> dict[Any, tuple[str, ...]]:
    """Return consecutive numbers as names: the first ones for the first key, and so on."""
    numbers = map(str, count())
    return {key: tuple(islice(numbers, size)) for key, size in sizes.items()}


def _names(values: Any) -> tuple[str, ...]:
    if isinstance(values, str) or not all(isinstance(value, str) for value in values):
        raise ValueError("expected a list of names")
    return tuple(values)
