"""OPL or one of its variants, chosen by plain arguments."""

from typing import Literal

from ..errors import OptionError, did_you_mean
from ..functional import FORM, FORMS
from ..losses import centered as centered_loss
from ..losses import prototypes
from ..losses.centered import CenteredProjectionLoss
from ..losses.projection import LOSS_FORMS, LossForm, OrthogonalProjectionLoss
from ..losses.prototypes import PrototypeProjectionLoss
from ..schedules import AutoGamma, Gamma

ProjectionForm = LossForm | Literal["prototypes"]
AnyProjectionLoss = OrthogonalProjectionLoss | PrototypeProjectionLoss | CenteredProjectionLoss


def build_projection(
    gamma: Gamma | None,
    form: ProjectionForm,
    centered: bool,
    feature_dim: int | None,
    num_classes: int | None,
    ignore_index: int,
    global_batch: bool,
) -> AnyProjectionLoss:
    """Build the loss that these arguments of `opl.regularize` name; raise `OptionError` if there is none."""
    if form == "prototypes":
        if feature_dim is None or num_classes is None or centered:
            raise OptionError(
                "form='prototypes' has a vector for each class and centers nothing: give feature_dim= and "
                "num_classes=, and leave centered out."
            )
        if isinstance(gamma, str | AutoGamma):
            raise OptionError("form='prototypes' has no pairs for an automatic gamma: give a number or an opl.Ramp.")
        return PrototypeProjectionLoss(
            feature_dim,
            num_classes=num_classes,
            gamma=prototypes.GAMMA if gamma is None else gamma,
            ignore_index=ignore_index,
            global_batch=global_batch,
        )
    if form not in LOSS_FORMS:
        raise OptionError(did_you_mean("form", form, (*LOSS_FORMS, "prototypes")))
    if not centered:
        return OrthogonalProjectionLoss(gamma=gamma, form=form, ignore_index=ignore_index, global_batch=global_batch)
    if feature_dim is None or form == "log_ratio":
        raise OptionError(
            f"centered=True keeps a mean of the features and takes a form of {', '.join(FORMS)}: give feature_dim=, "
            "the length of a feature."
        )
    return CenteredProjectionLoss(
        feature_dim,
        gamma=gamma,
        form=centered_loss.FORM if form == FORM else form,
        ignore_index=ignore_index,
        global_batch=global_batch,
    )
