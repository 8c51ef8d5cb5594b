"""One argument order in all losses and heads: sizes and settings by name, the same names in the same order."""

import importlib
import inspect
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


@pytest.mark.parametrize("name", CLASSES)
def test_a_module_takes_at_most_one_argument_without_its_name(name):
    positional = parameters(CLASSES[name].__init__, POSITIONAL)
    assert positional in ([], *([first] for first in FIRST))


@pytest.mark.parametrize("name", CLASSES)
def test_what_has_a_vector_for_each_class_is_built_from_its_width_and_the_number_of_classes(name):
    names = parameters(CLASSES[name].__init__)
    if "feature_dim" in names or "num_classes" in names:
        assert names[:2] == ["feature_dim", "num_classes"] or (names[0] == "feature_dim" and "num_classes" not in names)
    assert not {"dim", "embedding_size", "in_features", "classes", "num_features", "out_features"} & set(names)


@pytest.mark.parametrize("name", CLASSES)
def test_reduction_ignore_index_and_global_batch_come_last_in_this_order(name):
    names = [each for each in parameters(CLASSES[name].__init__) if each not in ("device", "options")]
    shared = [each for each in LAST if each in names]
    assert names[len(names) - len(shared) :] == shared


@pytest.mark.parametrize("name", CLASSES)
def test_settings_of_the_same_name_are_in_the_same_order(name):
    names = parameters(CLASSES[name].__init__)
    for other in (parameters(each.__init__) for each in CLASSES.values()):
        assert [each for each in names if each in other] == [each for each in other if each in names]


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_takes_tensors_in_one_order_and_its_settings_by_name(name):
    assert tuple(parameters(FORMULAS[name], POSITIONAL)) in DATA


@pytest.mark.parametrize("name", CLASSES)
def test_a_call_takes_the_tensors_of_the_formula(name):
    given = tuple(parameters(CLASSES[name].forward)) if name != "Geometry" else ("features", "labels")
    assert given in DATA


@pytest.mark.parametrize("name", [*opl.heads.__all__, "CenterLoss", "PerpetualProjectionLoss", "Geometry"])
def test_the_order_of_other_libraries_is_refused(name):
    with pytest.raises(TypeError, match="positional argument"):
        CLASSES[name](10, 512)
    built = CLASSES[name](512, num_classes=10)
    if isinstance(built, nn.Module):
        assert all(value.shape[:2] in ((10, 512), (10,)) for value in built.parameters())


WITHOUT_REDUCTION = {
    "OrthogonalProjectionLoss",
    "OLELoss",
    "PerpetualProjectionLoss",
}
LOSSES = sorted(name for name in opl.losses.__all__ if name.endswith("Loss"))


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_has_ignore_index_and_a_reduction_or_says_why_not(name):
    names = parameters(CLASSES[name].__init__)
    assert "ignore_index" in names
    assert ("reduction" in names) == (name not in WITHOUT_REDUCTION)
    if name in WITHOUT_REDUCTION:
        module = importlib.import_module(CLASSES[name].__module__)
        texts = [value.__doc__ or "" for value in vars(module).values() if callable(value)]
        assert any("no `reduction`" in text for text in texts)
