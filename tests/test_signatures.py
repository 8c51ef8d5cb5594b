"""One argument order in all losses and heads: tensors in the same order, settings by name with the same names."""

import importlib
import inspect
import pkgutil

import pytest
from torch import Tensor, nn

import opl.geometry
import opl.heads
import opl.losses

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
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
WITHOUT_REDUCTION = {"OrthogonalProjectionLoss", "OLELoss", "PerpetualProjectionLoss", "NTXentLoss"}


def public_values():
    """All public values that the modules of losses and heads define, by name."""
    for package in (opl.losses, opl.heads):
        for info in pkgutil.iter_modules(package.__path__):
            if not info.name.startswith("_") and info.name != "metric_learning":
                module = importlib.import_module(f"{package.__name__}.{info.name}")
                for name, value in vars(module).items():
                    if getattr(value, "__module__", None) == module.__name__ and not name.startswith("_"):
                        yield name, value


VALUES = dict(public_values()) | {"Head": opl.heads.Head, "Geometry": opl.geometry.Geometry}
CLASSES = {name: value for name, value in VALUES.items() if inspect.isclass(value)}
MODULES = {name: value for name, value in CLASSES.items() if issubclass(value, nn.Module)}
FORMULAS = {
    name: value
    for name, value in VALUES.items()
    if inspect.isfunction(value) and inspect.signature(value).return_annotation is Tensor
}


def parameters(function, kinds=None):
    listed = [parameter for parameter in inspect.signature(function).parameters.values() if parameter.name != "self"]
    return [parameter.name for parameter in listed if kinds is None or parameter.kind in kinds]


def test_a_module_takes_at_most_one_positional_argument_and_the_same_names_of_sizes():
    for name, value in (MODULES | {"Geometry": opl.geometry.Geometry}).items():
        positional, names = parameters(value.__init__, POSITIONAL), parameters(value.__init__)
        assert positional in ([], ["feature_dim"], ["counts"], ["size"]), name
        assert "num_classes" not in names or positional == ["feature_dim"], name
        assert not {"dim", "embedding_size", "in_features", "classes", "num_features", "out_features"} & {*names}, name


def test_formulas_and_calls_take_tensors_in_one_order_and_settings_by_name():
    assert len(FORMULAS) > 20
    assert {name for name, value in FORMULAS.items() if tuple(parameters(value, POSITIONAL)) not in DATA} == set()
    assert {name for name, value in MODULES.items() if tuple(parameters(value.forward)) not in DATA} == set()


def test_the_order_of_other_libraries_is_refused():
    for name in (*opl.heads.__all__, "CenterLoss", "PerpetualProjectionLoss", "Geometry"):
        with pytest.raises(TypeError, match="positional argument"):
            CLASSES[name](10, 512)
        built = CLASSES[name](512, num_classes=10)
        if isinstance(built, nn.Module):
            assert all(value.shape[:2] in ((10, 512), (10,)) for value in built.parameters()), name


def test_every_loss_has_ignore_index_and_a_reduction_unless_its_value_belongs_to_the_batch():
    for name in [name for name in opl.losses.__all__ if name.endswith("Loss")]:
        names = parameters(MODULES[name].__init__)
        assert "ignore_index" in names, name
        assert ("reduction" in names) == (name not in WITHOUT_REDUCTION), name
