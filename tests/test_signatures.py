"""One argument order in all losses and heads: sizes and settings by name, the same names in the same order."""

import importlib
import inspect
import itertools
import pkgutil

import pytest
from torch import Tensor, nn

import opl.geometry
import opl.heads
import opl.losses

FIRST = {"feature_dim", "counts", "size"}  # what a module is built from; everything else is keyword-only
LAST = ("reduction", "ignore_index", "global_batch")
DATA = {  # the tensors of a call, in order; all else is keyword-only
    ("features", "labels"),
    ("features", "labels", "centers"),
    ("features", "labels", "references"),
    ("logits", "labels"),
    ("logits", "labels", "weights"),
    ("maps", "labels"),
    ("student_features", "teacher_features", "labels"),
    ("student_logits", "teacher_logits", "labels"),
    ("features", "weight", "labels"),
    ("features", "means", "labels"),
    ("features", "prototypes"),
    ("feature_maps", "weight", "bias"),
    ("counts",),
    ("cosine",),
    ("step",),
}


def modules_of(package):
    names = [found.name for found in pkgutil.iter_modules(package.__path__) if not found.name.startswith("_")]
    return [importlib.import_module(f"{package.__name__}.{name}") for name in names if name != "metric_learning"]


def public(kind):
    """The losses and heads, or their formulas, wherever they are defined."""
    found = {}
    for module in [*modules_of(opl.losses), *modules_of(opl.heads)]:
        for name, value in vars(module).items():
            if kind(value) and value.__module__ == module.__name__ and not name.startswith("_"):
                found[name] = value
    return found


def is_formula(value):
    return inspect.isfunction(value) and inspect.signature(value).return_annotation is Tensor


CLASSES = public(lambda value: inspect.isclass(value) and issubclass(value, nn.Module)) | {
    "Head": opl.heads.Head,
    "Geometry": opl.geometry.Geometry,
}
FORMULAS = public(is_formula)


def parameters(function, kind=None):
    found = [each for each in inspect.signature(function).parameters.values() if each.name != "self"]
    return [each.name for each in found if kind is None or each.kind in kind]


POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def test_the_walk_finds_them_all():
    listed = {name for name in (*opl.losses.__all__, *opl.heads.__all__) if name[0].isupper()}
    assert set(CLASSES) - {"Geometry"} == listed
    assert {"focal", "center", "ole", "arcface", "rbf", "truncated", "perpetual"} < set(FORMULAS)


FOREIGN = {"dim", "embedding_size", "in_features", "classes", "num_features", "out_features"}
SETTINGS = {name: parameters(value.__init__) for name, value in CLASSES.items()}


def test_a_module_takes_at_most_one_positional_argument():
    allowed = ([], *([first] for first in FIRST))
    assert {
        name: parameters(value.__init__, POSITIONAL)
        for name, value in CLASSES.items()
        if parameters(value.__init__, POSITIONAL) not in allowed
    } == {}


def test_modules_with_a_vector_per_class_begin_with_feature_dim_and_num_classes():
    for name, names in SETTINGS.items():
        if "feature_dim" in names or "num_classes" in names:
            width_alone = names[0] == "feature_dim" and "num_classes" not in names
            assert names[:2] == ["feature_dim", "num_classes"] or width_alone, name
        assert not {"dim", "embedding_size", "in_features", "classes", "num_features", "out_features"} & set(names), (
            name
        )


def test_reduction_ignore_index_and_global_batch_come_last_in_this_order():
    for name, settings in SETTINGS.items():
        names = [setting for setting in settings if setting not in ("device", "options")]
        shared = [setting for setting in LAST if setting in names]
        assert names[len(names) - len(shared) :] == shared, name


def test_settings_of_the_same_name_are_in_the_same_order():
    for (one, names), (two, others) in itertools.combinations(SETTINGS.items(), 2):
        assert [name for name in names if name in others] == [name for name in others if name in names], (one, two)


def test_a_formula_takes_tensors_in_one_order_and_its_settings_by_name():
    assert {name for name, value in FORMULAS.items() if tuple(parameters(value, POSITIONAL)) not in DATA} == set()


def test_a_call_takes_the_tensors_of_the_formula():
    for name, value in CLASSES.items():
        assert name == "Geometry" or tuple(parameters(value.forward)) in DATA, name


def test_the_order_of_other_libraries_is_refused():
    for name in (*opl.heads.__all__, "CenterLoss", "PerpetualProjectionLoss", "Geometry"):
        with pytest.raises(TypeError, match="positional argument"):
            CLASSES[name](10, 512)
        built = CLASSES[name](512, num_classes=10)
        if isinstance(built, nn.Module):
            assert all(value.shape[:2] in ((10, 512), (10,)) for value in built.parameters()), name


WITHOUT_REDUCTION = {
    "OrthogonalProjectionLoss",
    "OLELoss",
    "PerpetualProjectionLoss",
    "NTXentLoss",
}
LOSSES = sorted(name for name in opl.losses.__all__ if name.endswith("Loss"))


def test_every_loss_has_ignore_index_and_a_reduction_or_says_why_not():
    for name in LOSSES:
        assert "ignore_index" in SETTINGS[name], name
        assert ("reduction" in SETTINGS[name]) == (name not in WITHOUT_REDUCTION), name
        if name in WITHOUT_REDUCTION:
            module = importlib.import_module(CLASSES[name].__module__)
            texts = [value.__doc__ or "" for value in vars(module).values() if callable(value)]
            assert any("no `reduction`" in text for text in texts), name
