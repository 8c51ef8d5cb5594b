"""Finding the features of given logits: the autograd graph leads from the logits back to the layer that made them.

A forward hook on every layer that may be a classifier leaves a note on the graph: the input of the layer, at the node
of its output. A note lives exactly as long as its graph. So nothing has to be cleared, two passes cannot be mixed up, a
pass without gradients leaves nothing, and replicas in threads do not disturb each other. While a compiled model is
traced there is no graph to write on; there the hook keeps the last pass instead.
"""

import difflib
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary, finalize, ref

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, Node

from ..errors import FeatureError, LayerError, TapError
from ..heads import Head
from .rows import GIVE, as_labels, as_vectors, class_axis, flat_rows, resize_labels, route

PREFIXES = ("module.", "_orig_mod.")  # what DataParallel, DDP and torch.compile put before the names of layers
WRAPPERS = ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")  # what FSDP and checkpoint wrappers put into them
WHERE = "name the layer that takes the features with layer='...', one of model.named_modules()"


def named_layers(model: nn.Module) -> dict[str, nn.Module]:
    """All layers of a model by their names without wrappers; raise `LayerError` for what is no model."""
    if not isinstance(model, nn.Module):
        raise LayerError(f"model is a {type(model).__name__}: give the torch.nn.Module that makes the features.")
    if isinstance(model, torch.jit.ScriptModule):
        raise LayerError(
            "the model was made by torch.jit, which runs its layers where no hook sees them: give the Python model "
            "to opl.regularize, and script it after training."
        )
    if isinstance(model, torch.fx.GraphModule):
        raise LayerError(
            "the model was made by torch.export or torch.fx, which has no layers left to tap: give the Python model, "
            "or compute the features yourself with features=lambda output: ..."
        )
    return {bare_name(name): layer for name, layer in model.named_modules()}


def classifiers(model: nn.Module) -> dict[str, nn.Module]:
    """The layers whose output may be logits: linear layers, 1 x 1 convolutions, and heads of `opl.heads`.

    What lies inside such a layer is a part of it.
    """
    found: dict[str, nn.Module] = {}
    inside: tuple[str, ...] = ()
    for name, layer in named_layers(model).items():
        if _may_classify(layer) and not name.startswith(inside):
            found[name] = layer
            inside = (*inside, f"{name}.") if next(layer.children(), None) is not None else inside
    return found


def find_layer(model: nn.Module, layer: str | nn.Module) -> tuple[str, nn.Module]:
    """Return the name and the module of a layer that is given by its name or itself."""
    named = named_layers(model)
    if isinstance(layer, nn.Module):
        for name, module in named.items():
            if module is layer:
                return name, module
        raise LayerError(f"the given {type(layer).__name__} is not a part of the model: pass one of its own layers.")
    if bare_name(layer) not in named:
        near = difflib.get_close_matches(layer, [name for name in named if name], n=3, cutoff=0.0)
        names = ", ".join(map(repr, near)) or "none"
        raise LayerError(f"the model has no layer {layer!r}: the nearest names are {names}.")
    return bare_name(layer), named[bare_name(layer)]


def bare_name(name: str) -> str:
    """Return a layer's name without what wrappers put into it.

    Example:
        >>> bare_name("module._orig_mod.body.fc"), bare_name("_fsdp_wrapped_module.fc"), bare_name("module")
        ('body.fc', 'fc', '')
    """
    dotted = f"{name}."
    for part in WRAPPERS:
        dotted = dotted.replace(part, "")
    while dotted.startswith(PREFIXES):
        dotted = dotted.split(".", 1)[1]
    return dotted.rstrip(".")


def _may_classify(layer: nn.Module) -> bool:
    if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return set(layer.kernel_size) == {1}
    return isinstance(layer, nn.Linear | Head)


NOTE = "opl"  # the key of a note in the metadata of a node


class Note(NamedTuple):
    """One call of a layer."""

    hook: "LayerHook"
    features: Any
    """What went into the layer, or what came out of it for a hook with `after`; a tensor in all sensible uses."""


class LayerHook:
    """A forward hook that notes the input of a layer at each of its outputs.

    Args:
        after: note the output instead; the output is then a view of itself, since a note on the very node that made
            it would keep itself alive.
    """

    def __init__(self, after: bool = False) -> None:
        self.after = after
        self.compiled: tuple[Any, Any] | None = None
        """Input and output of the last pass inside a compiled model."""

    def __call__(self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        """Leave a note about one call of the layer."""
        if self.after:
            output, features = (output.view_as(output), output) if isinstance(output, Tensor) else (output, output)
        else:
            features = args[0] if args else next(iter(kwargs.values()), None)
        if torch.compiler.is_compiling():
            self.compiled = (features, output)
        elif not _in_backward() and isinstance(output, Tensor) and output.grad_fn is not None:
            _notes_of(output.grad_fn)[NOTE] = Note(self, features)
        return output if self.after else None

    def __reduce__(self) -> Any:
        """In a copied or saved model a hook is something that does nothing, and does not need `opl`."""
        return getattr, (nullcontext(), "__exit__")


def note_of(node: Node) -> Note | None:
    """The note on a node of the autograd graph, if there is one."""
    note: Note | None = _notes_of(node).get(NOTE)
    return note


def _notes_of(node: Node) -> dict[str, Any]:
    """The metadata of a node, which PyTorch declares as a method and provides as a dict."""
    metadata: dict[str, Any] = node.metadata  # type: ignore[assignment]
    return metadata


class Tap:
    """The one hook of a layer, shared by all criteria that use it."""

    def __init__(self, layer: nn.Module, after: bool) -> None:
        self.layer = ref(layer)
        self.hook = LayerHook(after)
        self.users: set[int] = set()
        self._handle = layer.register_forward_hook(self.hook, with_kwargs=True)

    def release(self, user: int) -> None:
        """Forget a user; take the hook off the layer after the last one."""
        self.users.discard(user)
        layer = self.layer()
        if not self.users and layer is not None and _TAPS[self.hook.after].get(layer) is self:
            del _TAPS[self.hook.after][layer]
            self._handle.remove()


_TAPS: dict[bool, "WeakKeyDictionary[nn.Module, Tap]"] = {False: WeakKeyDictionary(), True: WeakKeyDictionary()}
"""All layers with a hook, by whether it notes the output."""


def attach(layer: nn.Module, user: object, after: bool = False) -> Tap:
    """Put a hook on a layer for a user, or share the one that is there; it goes when its last user is gone."""
    tap = _TAPS[after].get(layer)
    if tap is None:
        tap = _TAPS[after][layer] = Tap(layer, after)
    tap.users.add(id(user))
    finalize(user, tap.release, id(user))
    return tap


def _in_backward() -> bool:
    """Whether a checkpointed block runs again during backward: its notes were made when it ran first."""
    return torch._C._current_graph_task_id() != -1


COMPUTES = re.compile(
    r"(Mm|Addmm|Bmm|Baddbmm|Mv|Dot|Convolution|SlowConv|Embedding|ScaledDotProduct|Cdist|Bilinear|\w*Norm|\w*Relu|Gelu|"
    r"Silu|Mish|Sigmoid|Hard|Elu|Celu|Selu|Softplus|Glu|Max|Min|Amax|Amin|Topk|Sort|\w*Rnn|Lstm|Gru)\w*Backward\d*$"
)
"""Nodes that make something new: a layer above them is not the one whose output the logits are."""
KEEPS = re.compile(
    r"(View|UnsafeView|ReshapeAlias|Squeeze|Unsqueeze|Alias|Clone|ToCopy|Mul|Div|Add|Sub|Neg|Tanh|LogSoftmax|Softmax|"
    r"NativeDropout)Backward\d*$|\w*[a-zA-Z]$"
)
"""Nodes that leave rows in their order; functions that are not PyTorch's own, whose names end in a letter, should."""
RESIZES = re.compile(r"Upsample")
PASSES = re.compile(r"(_DDPSink|BackwardHookFunction|RegisterPostBackwardFunction)Backward$")
"""Functions of DDP, module hooks and FSDP that return each of their inputs as the output of the same number."""
DEEP = 200  # nodes between a layer and its logits; more are not looked at


class Reached(NamedTuple):
    """A call of a layer whose output becomes the logits."""

    hook: LayerHook
    features: Any
    edge: GradientEdge
    """Where the output of the layer is in the graph."""


class Trace(NamedTuple):
    """What lies behind some logits."""

    reached: list[Reached]
    """The calls that were found, in the order in which they are concatenated if they are."""
    obstacles: list[str]
    """Nodes at which the search stopped."""
    moves: bool
    """Whether rows may have been selected, moved or combined on the way."""
    resizes: bool
    """Whether maps were interpolated on the way."""


class _Walk:
    """A search that goes from the logits to the nearest calls, and remembers the nodes on the ways that lead there."""

    def __init__(self, hooks: Collection[LayerHook]) -> None:
        self.hooks = hooks
        self.compiled = [(hook, *hook.compiled) for hook in hooks if hook.compiled is not None]
        self.reached: list[Reached] = []
        self.obstacles: list[str] = []
        self.between: set[str] = set()
        self._seen: dict[tuple[Node, int], bool] = {}

    def visit(self, node: Node, number: int, depth: int = 0) -> bool:
        """Go on from an output of a node; return whether a call was found there or behind it."""
        if (node, number) in self._seen:
            return self._seen[node, number]
        self._seen[node, number] = found = self._find(node, number)
        if found:
            return True
        if COMPUTES.match(node.name()) or self._is_compiled(node) or depth > DEEP:
            self.obstacles.append(node.name())
            return False
        behind = node.next_functions
        if PASSES.match(node.name()) and number < len(behind):
            behind = (behind[number],)
        for next_node, next_number in behind:
            if next_node is not None and self.visit(next_node, next_number, depth + 1):
                found = True
        if found:
            self.between.add(node.name())
        self._seen[node, number] = found
        return found

    def _find(self, node: Node, number: int) -> bool:
        note = note_of(node)
        edge = GradientEdge(node, number)
        if note is not None and note.hook in self.hooks:
            self.reached.append(Reached(note.hook, note.features, edge))
            return True
        for hook, features, output in self.compiled:
            if output.grad_fn is node and output.output_nr == number:
                self.reached.append(Reached(hook, features, edge))
                return True
        return False

    def _is_compiled(self, node: Node) -> bool:
        return any(output.grad_fn is node for _, _, output in self.compiled)


def trace(logits: Tensor, hooks: Collection[LayerHook]) -> Trace:
    """Find the calls of hooked layers whose output becomes the logits, without another layer in between."""
    if logits.grad_fn is None:
        return Trace([], [], False, False)
    walk = _Walk(hooks)
    walk.visit(logits.grad_fn, logits.output_nr)
    moves = any(not KEEPS.match(name) for name in walk.between)
    return Trace(walk.reached, walk.obstacles, moves, any(map(RESIZES.match, walk.between)))


def search(logits: Tensor, hook: LayerHook) -> list[Reached]:
    """Find the nearest calls of one layer anywhere behind the logits."""
    waiting = [GradientEdge(logits.grad_fn, logits.output_nr)] if logits.grad_fn is not None else []
    seen, reached = set[Node](), list[Reached]()
    while waiting:
        edge = waiting.pop()
        if edge.node in seen:
            continue
        seen.add(edge.node)
        note = note_of(edge.node)
        if note is not None and note.hook is hook:
            reached.append(Reached(hook, note.features, edge))
            continue
        waiting += [
            GradientEdge(node, number) for node, number in reversed(edge.node.next_functions) if node is not None
        ]
    return reached


Pool = Callable[[Tensor], Tensor]
SETTLED = 8  # calls of a criterion after which layers that were never its classifier lose their hooks


class Rows(NamedTuple):
    """Feature vectors and their labels, row by row."""

    features: Tensor
    labels: Tensor


class Source(Protocol):
    """Finds the features of a batch."""

    @property
    def name(self) -> str:
        """What the features are, for messages."""
        ...

    def rows(self, output: Any, logits: Tensor, target: Tensor) -> Rows:
        """Feature vectors and labels of the logits that a criterion is given."""
        ...

    def close(self) -> None:
        """Take all hooks off the model."""
        ...


class ClassifierSource:
    """The input of the layer whose output becomes the logits, found in the autograd graph of each batch.

    Args:
        model: any module.
        layer: the layer or its name; by default it is found among all linear layers, 1 x 1 convolutions and heads.
        pool: what makes (B, D) of the input of a given layer that is not the classifier.
    """

    def __init__(self, model: nn.Module, layer: str | nn.Module | None = None, pool: Pool | None = None) -> None:
        self._given, self._pool = layer is not None, pool
        found = dict([find_layer(model, layer)]) if layer is not None else classifiers(model)
        self._model: ref[nn.Module] | None = ref(model)
        if not found:
            raise LayerError(
                f"{type(model).__name__} has no linear layer, 1 x 1 convolution or head of opl.heads whose input could "
                f"be the features: {WHERE}."
            )
        self._calls: dict[str, int] = {}
        self._tap(found)

    def _tap(self, layers: dict[str, nn.Module]) -> None:
        self._taps = {name: attach(layer, self) for name, layer in layers.items()}

    @property
    def name(self) -> str:
        """The name of the layer, or of all layers that were classifiers so far."""
        names = list(self._taps) if self._given else list(self._calls)
        return f"layer {', '.join(map(repr, names))}" if names else "the classifier, which the first batch will show"

    def rows(self, output: Any, logits: Tensor, target: Tensor) -> Rows:
        """The rows of the logits; raise `TapError` or `LayerError` if they cannot be told."""
        hooks = {tap.hook: name for name, tap in self._taps.items()}
        found = trace(logits, hooks)
        reached = found.reached or self._inside_compiled(logits)
        deep = self._given and not reached
        if deep:
            reached = search(logits, next(iter(hooks)))
        self._check(logits, [hooks[call.hook] for call in reached], found)
        for hook in hooks:
            hook.compiled = None
        layer = self._taps[hooks[reached[0].hook]].layer()
        features = _gather(reached, logits.device, hooks[reached[0].hook])
        self._settle(hooks[reached[0].hook])
        if deep:
            return plain_rows(torch.cat(features), logits, target, self._pool)
        conv = isinstance(layer, nn.modules.conv._ConvNd)
        return _classifier_rows(features, reached, found, logits, target, conv)

    def close(self) -> None:
        """Take all hooks off the model."""
        for tap in self._taps.values():
            tap.release(id(self))

    def _inside_compiled(self, logits: Tensor) -> list[Reached]:
        """The call whose output was changed inside a compiled model, if it is given or has the values of the logits."""
        reached = []
        for tap in self._taps.values():
            if tap.hook.compiled is not None:
                features, output = tap.hook.compiled
                same = output.numel() == logits.numel() and torch.equal(output.flatten(), logits.flatten())
                if output.grad_fn is not None and (self._given or same):
                    reached.append(Reached(tap.hook, features, GradientEdge(output.grad_fn, output.output_nr)))
        return reached

    def _check(self, logits: Tensor, names: Sequence[str], found: Trace) -> None:
        if not names:
            raise TapError(self._not_found(logits, found))
        if not self._given and (len(set(names)) > 1 or found.obstacles):
            others = sorted({*map(repr, names), *found.obstacles})
            raise LayerError(
                f"the logits are made from {' and '.join(others)}, so it is not clear which features are theirs: "
                f"{WHERE}."
            )

    def _not_found(self, logits: Tensor, found: Trace) -> str:
        if logits.grad_fn is None:
            return (
                "these logits carry no gradient, so no features can be found for them: call the criterion with what "
                "the model returned with gradients enabled, not detached, or after criterion.eval()."
            )
        model = self._model() if self._model else None
        now = {} if model is None else classifiers(model)
        new = [name for name, layer in now.items() if all(tap.layer() is not layer for tap in self._taps.values())]
        between = f", they come from {', '.join(sorted(set(found.obstacles)))}" if found.obstacles else ""
        looked = ", ".join(map(repr, list(self._taps)[:6])) + (", ..." if len(self._taps) > 6 else "")
        none = f"these logits are the output of none of the layers {looked}{between}"
        if new and not self._calls:
            names = ", ".join(map(repr, new[:3]))
            return f"{none}: the model has got {names} since opl.regularize was called; call it again."
        return (
            f"{none}: the model was compiled and run before opl.regularize was called, or they are another model's; "
            f"otherwise {WHERE}."
        )

    def _settle(self, name: str) -> None:
        """Count a call; after some, keep only hooks that were of use, so that others hold nothing."""
        self._calls[name] = self._calls.get(name, 0) + 1
        if not self._given and sum(self._calls.values()) == SETTLED:
            for other in [other for other in self._taps if other not in self._calls]:
                self._taps.pop(other).release(id(self))

    def __getstate__(self) -> dict[str, Any]:
        layers = {name: tap.layer() for name, tap in self._taps.items()}
        return {**self.__dict__, "_taps": layers, "_model": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        layers = state.pop("_taps")
        self.__dict__.update(state)
        self._tap(layers)


class OutputSource:
    """The output of a named layer."""

    def __init__(self, model: nn.Module, layer: str, pool: Pool | None = None) -> None:
        self._layer, module = find_layer(model, layer)
        self._pool = pool
        self._tap: Tap = attach(module, self, after=True)

    @property
    def name(self) -> str:
        """The name of the layer."""
        return f"the output of layer {self._layer!r}"

    def rows(self, output: Any, logits: Tensor, target: Tensor) -> Rows:
        """The rows of what the layer returned on the way to the logits."""
        reached = search(logits, self._tap.hook)
        if not reached and self._tap.hook.compiled is not None:
            features = [self._tap.hook.compiled[0]]
        elif not reached:
            raise TapError(f"these logits were not made from {self.name}: name a layer that the model uses.")
        else:
            features = _gather(reached, logits.device, self._layer)
        self._tap.hook.compiled = None
        return plain_rows(torch.cat(features), logits, target, self._pool)

    def close(self) -> None:
        """Take the hook off the model."""
        self._tap.release(id(self))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tap": self._tap.layer()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        layer = state.pop("_tap")
        self.__dict__.update(state)
        self._tap = attach(layer, self, after=True)


class FunctionSource:
    """What a function makes of the model's output."""

    name = "features(output)"

    def __init__(self, function: Callable[[Any], Tensor], pool: Pool | None = None) -> None:
        self._function, self._pool = function, pool

    def rows(self, output: Any, logits: Tensor, target: Tensor) -> Rows:
        """The rows of the function's value."""
        return plain_rows(_as_tensor(self._function(output), self.name), logits, target, self._pool)

    def close(self) -> None:
        """Nothing: a function needs no hook."""


def plain_rows(features: Tensor, logits: Tensor, target: Tensor, pool: Pool | None) -> Rows:
    """Rows of features that are not the input of the classifier: vectors, tokens or maps."""
    features = pool(features) if pool else features
    if features.ndim == 4 and features.shape[2:] == (1, 1):
        features = features.flatten(1)
    if features.ndim == 4 and target.ndim == 3:
        return Rows(as_vectors(features, True), resize_labels(target, features.shape[2:]).reshape(-1))
    if features.ndim == 2 or (features.ndim == 3 and target.ndim == 2 and target.shape == features.shape[:2]):
        return Rows(as_vectors(features, False), as_labels(target, logits, class_axis(logits, target)))
    raise FeatureError(
        f"features have shape {tuple(features.shape)} and target {tuple(target.shape)}: pool them to one vector a "
        "label with pool='mean', 'first' or 'last', or with a function."
    )


def _classifier_rows(
    features: Sequence[Tensor], reached: Sequence[Reached], found: Trace, logits: Tensor, target: Tensor, conv: bool
) -> Rows:
    if found.resizes:
        [maps] = features
        return Rows(as_vectors(maps, True), resize_labels(target, maps.shape[2:]).reshape(-1))
    axis = class_axis(logits, target)
    vectors = torch.cat([as_vectors(each, conv) for each in features])
    labels = as_labels(target, logits, axis)
    if found.moves:
        vectors = route([call.edge for call in reached], vectors, conv, logits, axis)
    count = flat_rows(logits, axis)
    if len(vectors) != count:
        raise FeatureError(f"the classifier has {len(vectors)} rows of features and the logits have {count}: {GIVE}.")
    return Rows(vectors, labels)


def _gather(reached: Sequence[Reached], device: torch.device, name: str) -> list[Tensor]:
    """The features of all calls on one device; those of replicas are on theirs."""
    return [_as_tensor(call.features, f"layer {name!r}").to(device) for call in reached]


def _as_tensor(features: Any, name: str) -> Tensor:
    if not isinstance(features, Tensor):
        kind = type(features).__name__
        raise FeatureError(f"{name} has a {kind}, not a tensor: name another with layer= or features=.")
    return features
