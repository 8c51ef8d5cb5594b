"""Finding the features of given logits: the autograd graph leads from the logits back to the layer that made them.

A forward hook on every layer that may be a classifier leaves a note on the graph: the input of the layer, at the node
of its output. A note lives exactly as long as its graph. So nothing has to be cleared, two passes cannot be mixed up, a
pass without gradients leaves nothing, and replicas in threads do not disturb each other. While a compiled model is
traced there is no graph to write on; there the hook keeps the last pass instead.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary, finalize, ref

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, Node

from ..errors import FeatureError, LayerError, OptionError, TapError
from ..heads import Head
from .rows import (
    CURE,
    as_labels,
    as_vectors,
    class_axis,
    count_rows,
    find_order,
    resize_labels,
    route,
    spread,
    squeeze_target,
)

PREFIXES = ("module.", "_orig_mod.")  # DataParallel, DDP and torch.compile add them before the names of layers
WRAPPERS = ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")  # FSDP and checkpoint wrappers add them inside
WHERE = "name the layer whose input is the features with layer='...', one of model.named_modules()"


def named_layers(model: nn.Module) -> dict[str, nn.Module]:
    """Return all layers of a model by their names without wrappers; raise `LayerError` if there are none to hook."""
    if not isinstance(model, nn.Module):
        raise LayerError(f"model has type {type(model).__name__}: pass the torch.nn.Module that computes the features.")
    if any(base.__module__.split(".")[0] == "keras" for base in type(model).__mro__):
        raise LayerError(f"the model is a Keras model, whose layers call functions that no hook sees: {CURE}.")
    if isinstance(model, torch.jit.ScriptModule):
        raise LayerError(
            "the model was compiled by torch.jit, which runs its layers where no hook sees them: pass the Python model "
            "to opl.regularize, and script it after training."
        )
    if isinstance(model, torch.fx.GraphModule):
        raise LayerError(
            "the model was made by torch.export or torch.fx and has no layers left to hook: pass the Python model, or "
            f"{CURE}."
        )
    return {bare_name(name): layer for name, layer in model.named_modules()}


def classifiers(model: nn.Module) -> dict[str, nn.Module]:
    """Return the layers whose output may be logits: linear layers, 1 x 1 convolutions, and heads of `opl.heads`.

    Layers inside such a layer are parts of it.
    """
    layers: dict[str, nn.Module] = {}
    inside: tuple[str, ...] = ()
    for name, layer in named_layers(model).items():
        if _may_classify(layer) and not name.startswith(inside):
            layers[name] = layer
            inside = (*inside, f"{name}.") if next(layer.children(), None) is not None else inside
    return layers


def find_layer(model: nn.Module, layer: str | nn.Module) -> tuple[str, nn.Module]:
    """Return the name and the module of a layer that is given by its name or itself."""
    named = named_layers(model)
    if isinstance(layer, nn.Module):
        for name, module in named.items():
            if module is layer:
                return name, module
        raise LayerError(f"the given {type(layer).__name__} is not part of the model: pass a layer of this model.")
    if not isinstance(layer, str):
        raise OptionError(f"layer has type {type(layer).__name__}: pass a layer of the model or its name.")
    if bare_name(layer) not in named:
        near = difflib.get_close_matches(layer, [name for name in named if name], n=3, cutoff=0.0)
        names = ", ".join(map(repr, near)) or "none"
        raise LayerError(f"the model has no layer {layer!r}: the nearest names are {names}.")
    return bare_name(layer), named[bare_name(layer)]


def bare_name(name: str) -> str:
    """Return a layer's name without the parts that wrappers add.

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
Pool = Callable[[Tensor], Tensor]
Key = tuple[Node, int]
"""A tensor in the autograd graph: the node that made it, and its index among the outputs of that node."""


class Note(NamedTuple):
    """One call of a layer."""

    hook: "LayerHook"
    features: Any
    """The input of the layer, or its output for a hook with `after`; or a weak reference to it."""


class LayerHook:
    """A forward hook that notes the input of a layer at each of its outputs.

    Args:
        after: note the output instead; the output is then a view of itself, since a note on the very node that made
            it would keep itself alive.
    """

    def __init__(self, after: bool = False) -> None:
        self.after = after
        self.strong = True
        """Whether notes keep the features alive, also where the graph does not, as inside a checkpoint."""
        self.ran = False
        """Whether the layer was called, with or without gradients, since this was last set to False."""
        self.channels_first = False
        """Whether the classes are the second axis of the layer's output, as those of a convolution."""
        self.compiled: tuple[Any, Any] | None = None
        """Input and output of the last pass with gradients inside a compiled model."""

    def __call__(self, layer: nn.Module, args: tuple[Any, ...], *rest: Any) -> Any:
        """Leave a note about one call of the layer.

        `rest` is the keyword arguments and the output, or the output alone where PyTorch put the hook on another layer,
        as `prepare_qat` does.
        """
        kwargs, output = rest if len(rest) == 2 else ({}, rest[0])
        self.channels_first = isinstance(layer, nn.modules.conv._ConvNd)
        if self.after:
            output, features = (output.view_as(output), output) if isinstance(output, Tensor) else (output, output)
        else:
            features = args[0] if args else next(iter(kwargs.values()), None)
        if torch.compiler.is_compiling():
            if torch.is_grad_enabled():
                self.compiled = (features, output)
        elif not _in_backward():
            self.ran = True
            if isinstance(output, Tensor) and output.grad_fn is not None:
                weak = not self.strong and isinstance(features, Tensor)
                _notes_of(output.grad_fn)[NOTE] = Note(self, ref(features) if weak else features)
        return output if self.after else None

    def __reduce__(self) -> Any:
        """In a copied or saved model a hook is something that does nothing, and does not need `opl`."""
        return getattr, (nullcontext(), "__exit__")


def note_of(node: Node) -> Note | None:
    """Return the note on a node of the autograd graph, if there is one."""
    note: Note | None = _notes_of(node).get(NOTE)
    return note


def _notes_of(node: Node) -> dict[str, Any]:
    """Return the metadata of a node, which PyTorch declares as a method and provides as a dict."""
    metadata: dict[str, Any] = node.metadata  # type: ignore[assignment]
    return metadata


class Tap:
    """The one hook of a layer, shared by all criteria that use it."""

    def __init__(self, layer: nn.Module, after: bool) -> None:
        self.layer = ref(layer)
        self.hook = LayerHook(after)
        self._users: dict[int, bool] = {}
        self._handle = layer.register_forward_hook(self.hook, with_kwargs=True)

    def use(self, user: int, strong: bool = True) -> None:
        """Register a user, who needs features to be kept alive or not."""
        self._users[user] = strong
        self.hook.strong = any(self._users.values())

    def release(self, user: int) -> None:
        """Forget a user; remove the hook from the layer after the last one."""
        self._users.pop(user, None)
        self.hook.strong = any(self._users.values())
        layer = self.layer()
        if not self._users and layer is not None and _TAPS[self.hook.after].get(layer) is self:
            del _TAPS[self.hook.after][layer]
            self._handle.remove()


_TAPS: dict[bool, "WeakKeyDictionary[nn.Module, Tap]"] = {False: WeakKeyDictionary(), True: WeakKeyDictionary()}
"""All layers with a hook, by whether it notes the output."""


def attach(layer: nn.Module, user: object, after: bool = False) -> Tap:
    """Put a hook on a layer for a user, or share the existing hook; it is removed with its last user."""
    tap = _TAPS[after].get(layer)
    if tap is None:
        tap = _TAPS[after][layer] = Tap(layer, after)
    tap.use(id(user))
    finalize(user, tap.release, id(user))
    return tap


def _in_backward() -> bool:
    """Return whether a checkpointed block runs again during backward: its notes were made when it ran first."""
    return torch._C._current_graph_task_id() != -1


PRODUCTS = re.compile(
    r"(Mm|Addmm|Bmm|Baddbmm|Mv|Dot|Cdist|Bilinear|Embedding|ScaledDotProduct|Addmv|Addr)\w*Backward\d*$"
)
CONVOLUTIONS = re.compile(r"(Convolution|SlowConv|Mkldnn\w*Conv|Cudnn\w*Conv|Miopen\w*Conv)\w*Backward\d*$")
ACTIVATIONS = re.compile(
    r"(\w*Norm|\w*Relu|Gelu|Silu|Mish|Hard|Elu|Celu|Selu|Softplus|Glu|Max|Min|Amax|Amin|Topk|Sort|\w*Rnn|Lstm|Gru)\w*"
    r"Backward\d*$"
)
"""Nodes that compute something new, like products and convolutions: the logits are not the output of a layer above."""
POINTWISE = re.compile(
    r"(Clamp|MaskedFill|Where|Tanh|Sigmoid|LogSigmoid|Softmax|LogSoftmax|NativeDropout|Exp|Log|Pow|Abs|Sqrt|Fake|"
    r"FusedMovingAvg|Hardtanh)\w*Backward\d*$"
)
"""Functions of single numbers or of the classes of one row; some have no gradient where they saturate."""
KEEPS = re.compile(
    r"(View|UnsafeView|ReshapeAlias|Squeeze|Unsqueeze|Alias|Clone|ToCopy|Mul|Div|Add|Sub|Neg|Rsub)Backward\d*$|"
    r"\w*[a-zA-Z]$"
)
"""More nodes that leave rows in their order; functions that are not PyTorch's, whose names end in a letter, should."""
ROWWISE = re.compile(r"(Mm|Addmm|Bmm|Baddbmm|Mean|Sum|\w*Pool|Upsample|Constant|Var|Std|ScaledDotProduct|Rsqrt)\w*\d*$")
"""More nodes of networks that leave samples in their order, as convolutions, activations and normalization do."""
ALONG = re.compile(r"(Cat|Flip|Roll|Slice|Select|Split|Unbind|Stack|Index|IndexSelect|Gather|Transpose|Permute)\w*\d*$")
"""Nodes that move rows if they work along the first axis."""
RESIZES = re.compile(r"Upsample")
PASSES = re.compile(r"(_DDPSink|BackwardHookFunction|RegisterPostBackwardFunction)Backward$")
"""Functions of DDP, module hooks and FSDP that return each of their inputs as the output of the same index."""
REENTRANT = "CheckpointFunctionBackward"
COMPILED = "CompiledFunctionBackward"


def _computes(node: Node) -> bool:
    name = node.name()
    return any(kind.match(name) for kind in (PRODUCTS, CONVOLUTIONS, ACTIVATIONS)) or name in (REENTRANT, COMPILED)


class Call(NamedTuple):
    """A call of a layer that some logits were made from."""

    hook: LayerHook
    features: Any
    key: Key
    """The output of the layer; of a compiled model, maybe another output of the same call."""
    inside: bool = False
    """Whether a compiled model changed the output of the layer before it became `key`."""


@dataclass
class Walk:
    """A search from the logits back to the nearest calls of some layers."""

    root: Key
    calls: dict[Key, Call] = field(default_factory=dict)
    obstacles: list[str] = field(default_factory=list)
    """Nodes at which the search stopped."""
    useful: set[Key] = field(default_factory=set)
    """All tensors on the way from a call to the logits, both included."""

    def between(self) -> list[Node]:
        """Return the nodes on the way in topological order, from the logits to the calls."""
        waiting, order = {self.root[0]: 0}, list[Node]()
        edges: dict[Node, set[Node]] = {}
        for node, number in self.useful:
            if (node, number) not in self.calls:
                edges.setdefault(node, set()).update(
                    after[0] for after in _behind(node, number) if after in self.useful
                )
        for targets in edges.values():
            for node in targets:
                waiting[node] = waiting.get(node, 0) + 1
        ready = [self.root[0]]
        while ready:
            node = ready.pop()
            if node not in edges:
                continue
            order.append(node)
            for target in edges[node]:
                waiting[target] -= 1
                if not waiting[target]:
                    ready.append(target)
        return order


def _behind(node: Node, number: int) -> Iterable[Key]:
    """Return the tensors from which an output of a node was made."""
    edges = node.next_functions
    if PASSES.match(node.name()) and number < len(edges):
        edges = (edges[number],)
    return [(target, index) for target, index in edges if target is not None]


def find_calls(root: Key, hooks: Iterable[LayerHook], deep: bool) -> Walk:
    """Find the nearest calls of some layers behind a tensor.

    Args:
        root: the tensor.
        hooks: the hooks of the layers.
        deep: whether to go on through nodes that compute something new.
    """
    hooks = set(hooks)
    compiled = [(hook, *hook.compiled) for hook in hooks if hook.compiled is not None]
    walk, parents, waiting = Walk(root), dict[Key, list[Key]](), [root]
    parents[root] = []
    while waiting:
        key = waiting.pop()
        call = _call_at(key, hooks, compiled, deep)
        if call is not None:
            walk.calls[key] = call
        elif not deep and _computes(key[0]):
            walk.obstacles.append(key[0].name())
        else:
            for target in _behind(*key):
                if target not in parents:
                    waiting.append(target)
                parents.setdefault(target, []).append(key)
    waiting = list(walk.calls)
    while waiting:
        key = waiting.pop()
        if key not in walk.useful:
            walk.useful.add(key)
            waiting += parents[key]
    return walk


def _call_at(key: Key, hooks: set[LayerHook], compiled: list[tuple[LayerHook, Any, Any]], deep: bool) -> Call | None:
    note = note_of(key[0])
    if note is not None and note.hook in hooks:
        return Call(note.hook, note.features() if isinstance(note.features, ref) else note.features, key)
    for hook, features, output in compiled:
        if isinstance(output, Tensor) and (output.grad_fn, output.output_nr) == key:
            return Call(hook, features, key)
        if deep and isinstance(output, Tensor) and _without_views(output.grad_fn) is key[0]:
            return Call(hook, features, key, inside=True)
    return None


def _without_views(node: Node | None) -> Node | None:
    """Return the node that made the tensor of which a node is a view."""
    while node is not None and re.match(r"(View|Alias|AsStrided)", node.name()):
        node = node.next_functions[0][0]
    return node


def send_back(walk: Walk, order: Sequence[Node], cotangent: Tensor) -> dict[Key, Tensor]:
    """Send numbers from the logits back to the calls.

    Like a backward pass, except that functions of single numbers are skipped, since some have a gradient of zero.
    """
    received: dict[Key, Tensor] = {walk.root: cotangent}
    for node in order:
        count = len(node._input_metadata)
        given = [received.pop((node, number), None) for number in range(count)]
        for (target, number), part in zip(node.next_functions, _pull(node, given), strict=False):
            if part is None or target is None or (target, number) not in walk.useful:
                continue
            like = target._input_metadata[number]
            part = part.sum_to_size(tuple(like.shape)).to(like.dtype)
            received[target, number] = received[target, number] + part if (target, number) in received else part
    return received


def _pull(node: Node, given: list[Tensor | None]) -> Sequence[Tensor | None]:
    """Return the numbers for the inputs of a node."""
    name, inputs = node.name(), node.next_functions
    if name[-1].isalpha() and not callable(node):  # a function that is not PyTorch's
        return given if len(given) == len(inputs) else [given[0]] * len(inputs)
    shape = None if given[0] is None else tuple(given[0].shape)
    same = [target is not None and tuple(target._input_metadata[i].shape) == shape for target, i in inputs]
    if POINTWISE.match(name) and sum(target is not None for target, _ in inputs) == 1 and any(same):
        return [given[0] if fits else None for fits in same]
    pulled: Any = node(*given)  # type: ignore[operator]
    return pulled if isinstance(pulled, tuple) else (pulled,)


def _keeps_samples(node: Node) -> bool:
    """Return whether a node of a network certainly leaves samples in their order along the first axis."""
    name = node.name()
    if ALONG.match(name):
        return not _works_along_rows(node)
    if name[-1].isalpha():  # a function that is not PyTorch's, or a compiled part
        return PASSES.match(name) is not None or name == "SyncBatchNormBackward"
    return _computes(node) or any(kind.match(name) for kind in (POINTWISE, ROWWISE, KEEPS))


def _works_along_rows(node: Node) -> bool:
    if node.name().startswith("IndexBackward"):
        return getattr(node, "_saved_indices", (0,))[0] is not None
    if node.name().startswith("Permute"):
        return bool(node._saved_dims[0] != 0)  # type: ignore[attr-defined]
    names = [name for name in ("_saved_dim", "_saved_dims", "_saved_dim0", "_saved_dim1") if hasattr(node, name)]
    values = [getattr(node, name) for name in names]
    dims = [dim for value in values for dim in (value if isinstance(value, tuple | list) else (value,))]
    wide = len(node._input_metadata[0].shape) > 1
    # A negative axis is stored as an unsigned number: the last axis is that of rows only if there is no other.
    return not dims or any(dim == 0 or (dim >= 2**63 and not (wide and dim == 2**64 - 1)) for dim in dims)


SETTLED = 8  # calls of a criterion after which layers that were never its classifier stop keeping features alive


class Rows(NamedTuple):
    """Feature vectors and their labels, row by row."""

    features: Tensor
    labels: Tensor
    num_classes: int = 1
    """Number of logits per row, if the features are the input of the classifier."""


class Source(Protocol):
    """Finds the features of a batch."""

    @property
    def name(self) -> str:
        """What the features are, for messages."""
        ...

    @property
    def training(self) -> bool:
        """Whether the model is in training mode."""
        ...

    def rows(self, output: Any, logits: Tensor, target: Tensor) -> Rows:
        """Return feature vectors and labels of the logits that a criterion is given."""
        ...

    def close(self) -> None:
        """Remove all hooks from the model."""
        ...


class ClassifierSource:
    """The input of the layer whose output becomes the logits, found in the autograd graph of each batch.

    Args:
        model: any module.
        layer: the layer or its name; by default it is found among all linear layers, 1 x 1 convolutions and heads.
        pool: reduces the input of a given layer to (B, D).
    """

    def __init__(self, model: nn.Module, layer: str | nn.Module | None = None, pool: Pool | None = None) -> None:
        self._pool = pool
        layers = dict([find_layer(model, layer)]) if layer is not None else classifiers(model)
        self.model: ref[nn.Module] | None = ref(model)
        if not layers:
            raise LayerError(
                f"{type(model).__name__} has no linear layer, 1 x 1 convolution or head of opl.heads whose input could "
                f"be the features: {WHERE}."
            )
        self._calls: dict[str, int] = {}
        self.closed, self.is_named = False, layer is not None
        self._attach(layers)

    def _attach(self, layers: dict[str, nn.Module]) -> None:
        self._taps = {name: attach(layer, self) for name, layer in layers.items()}

    @property
    def name(self) -> str:
        """The input of the layer, or of all layers that were classifiers so far."""
        names = list(self._taps) if self.is_named else list(self._calls)
        if names == [""]:
            return "the input of the model"
        joined = ", ".join(map(repr, names))
        return f"the input of layer {joined}" if names else "the input of the classifier (detected on the first batch)"

    @property
    def training(self) -> bool:
        """Whether the model is in training mode."""
        return _is_training(self.model, self._taps.values())

    def rows(self, output: Any, logits: Tensor, target: Tensor) -> Rows:
        """Return the rows of the logits; raise `TapError` or `LayerError` if they cannot be found."""
        names = {tap.hook: name for name, tap in self._taps.items()}
        root = _key_of(logits)
        walk = find_calls(root, names, deep=False) if root is not None else None
        if root is not None and walk is not None and not walk.calls:
            walk = self._changed_inside(logits, root, names) or walk
            if self.is_named and not walk.calls:
                walk = find_calls(root, names, deep=True)
                if walk.calls:
                    self._finish(names, walk)
                    return deep_rows(walk, logits, target, self._pool, self.name)
        if walk is None or not walk.calls:
            raise TapError(explain(self, self._taps, output, logits, walk))
        calls = self._unite(walk, names)
        self._finish(names, walk)
        if self._pool is not None:
            return deep_rows(walk, logits, target, self._pool, self.name)
        return _classifier_rows(calls, walk, logits, target)

    def close(self) -> None:
        """Remove all hooks from the model."""
        self.closed = True
        for tap in self._taps.values():
            tap.release(id(self))

    def _unite(self, walk: Walk, names: dict[LayerHook, str]) -> list[Call]:
        """Return the calls of the classifier; raise `LayerError` if layers with different inputs were combined."""
        calls = list(walk.calls.values())
        for call in calls:
            if call.features is None:
                raise TapError(self._released(names[call.hook]))
        if len({call.hook for call in calls}) > 1 and not walk.obstacles:
            chains = [_inputs(call.features, names) for call in calls]
            shared = set(chains[0]).intersection(*chains[1:])
            direct = [call for call, chain in zip(calls, chains, strict=True) if chain and chain[0] in shared]
            if direct and len({_inputs(call.features, names)[0] for call in direct}) == 1:
                return direct
        if not self.is_named and (len({call.hook for call in calls}) > 1 or walk.obstacles):
            parts = sorted({repr(names[call.hook]) for call in calls} | set(walk.obstacles))
            raise LayerError(f"the logits are made from {' and '.join(parts)}, whose inputs differ: {WHERE}.")
        return calls

    def _released(self, name: str) -> str:
        """Keep the inputs of all layers alive again; return what happened."""
        for tap in self._taps.values():
            tap.use(id(self))
        self._calls.clear()
        return (
            f"the classifier is now {name!r}, whose input was not kept inside a checkpoint: it is kept from now on, so "
            "run the model on this batch again."
        )

    def _changed_inside(self, logits: Tensor, root: Key, names: dict[LayerHook, str]) -> Walk | None:
        """Find the call whose output a compiled model changed into the logits, if its values show it."""
        for hook in names:
            if hook.compiled is not None:
                features, output = hook.compiled
                if isinstance(output, Tensor) and output.grad_fn is root[0] and _has_same_rows(output, logits):
                    return Walk(root, {root: Call(hook, features, root)}, useful={root})
        return None

    def _finish(self, names: dict[LayerHook, str], walk: Walk) -> None:
        """Count a call; after some calls, let layers that were never the classifier keep nothing alive."""
        for hook in names:
            hook.compiled, hook.ran = None, False
        for call in walk.calls.values():
            self._calls[names[call.hook]] = self._calls.get(names[call.hook], 0) + 1
        if not self.is_named and sum(self._calls.values()) >= SETTLED:
            for name, tap in self._taps.items():
                if name not in self._calls and tap.hook.strong:
                    tap.use(id(self), strong=False)

    def __getstate__(self) -> dict[str, Any]:
        layers = {name: tap.layer() for name, tap in self._taps.items()}
        return {**self.__dict__, "_taps": layers, "model": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        layers = state.pop("_taps")
        self.__dict__.update(state)
        self._attach(layers)


class OutputSource:
    """The output of a named layer."""

    def __init__(self, model: nn.Module, layer: str, pool: Pool | None = None) -> None:
        self._layer, module = find_layer(model, layer)
        self._pool = pool
        self.model: ref[nn.Module] | None = ref(model)
        self.closed, self.is_named = False, True
        self._tap: Tap = attach(module, self, after=True)

    @property
    def name(self) -> str:
        """The output of the layer."""
        return f"the output of layer {self._layer!r}" if self._layer else "the output of the model"

    @property
    def training(self) -> bool:
        """Whether the model is in training mode."""
        return _is_training(self.model, [self._tap])

    def rows(self, output: Any, logits: Tensor, target: Tensor) -> Rows:
        """Return the rows of what the layer returned on the way to the logits."""
        root = _key_of(logits)
        walk = find_calls(root, [self._tap.hook], deep=True) if root is not None else None
        if walk is None or not walk.calls:
            taps = {self._layer: self._tap}
            raise TapError(explain(self, taps, output, logits, walk))
        self._tap.hook.compiled, self._tap.hook.ran = None, False
        return deep_rows(walk, logits, target, self._pool, self.name)

    def close(self) -> None:
        """Remove the hook from the model."""
        self.closed = True
        self._tap.release(id(self))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tap": self._tap.layer(), "model": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        layer = state.pop("_tap")
        self.__dict__.update(state)
        self._tap = attach(layer, self, after=True)


class FunctionSource:
    """The value of a function of the model's output."""

    name = "features(output)"

    def __init__(self, model: nn.Module, function: Callable[[Any], Tensor], pool: Pool | None = None) -> None:
        self.model: ref[nn.Module] | None = ref(model)
        self._function, self._pool = function, pool

    @property
    def training(self) -> bool:
        """Whether the model is in training mode."""
        return _is_training(self.model, [])

    def rows(self, output: Any, logits: Tensor, target: Tensor) -> Rows:
        """Return the rows of the function's value."""
        return plain_rows(_as_tensor(self._function(output), self.name), logits, target, self._pool)

    def close(self) -> None:
        """Do nothing: a function needs no hook."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "model": None}


def plain_rows(features: Tensor, logits: Tensor, target: Tensor, pool: Pool | None) -> Rows:
    """Return rows of features that are not the input of the classifier: vectors, tokens or maps."""
    features = pool(features) if pool else features
    if features.ndim == 4 and features.shape[2:] == (1, 1):
        features = features.flatten(1)
    target = squeeze_target(logits, target)
    if features.ndim == 4 and target.ndim == 3:
        return Rows(as_vectors(features, True), resize_labels(target, features.shape[2:]).reshape(-1))
    if features.ndim == 2 or (features.ndim == 3 and target.ndim == 2 and target.shape == features.shape[:2]):
        return Rows(as_vectors(features, False), as_labels(target, logits, class_axis(logits, target)))
    raise FeatureError(
        f"features have shape {tuple(features.shape)} and target {tuple(target.shape)}: pool them to one vector per "
        "label with pool='mean', 'first' or 'last', or with a function."
    )


def deep_rows(walk: Walk, logits: Tensor, target: Tensor, pool: Pool | None, name: str) -> Rows:
    """Return rows of features with a network between them and the logits, in the order of the logits' rows."""
    calls = list(walk.calls.values())
    if any(call.inside for call in calls):
        raise TapError(
            f"{name} and these logits are computed in one compiled call, which hides the order of rows: call the "
            f"model uncompiled, or {CURE}."
        )
    features = [_as_tensor(call.features, name).to(logits.device) for call in calls]
    order = walk.between()
    if len(calls) > 1 or not all(map(_keeps_samples, order)):
        features = [_in_order(walk, calls, features, logits)]
    return plain_rows(features[0], logits, target, pool)


def _in_order(walk: Walk, calls: Sequence[Call], features: Sequence[Tensor], logits: Tensor) -> Tensor:
    """Return the samples of all calls in the order of the logits; the second axis of (T, B, D) can be theirs too."""
    near = _near_part(walk)
    order, starts = near.between(), [GradientEdge(*key) for key in near.calls]
    ends = [GradientEdge(*call.key) for call in calls]

    def send(values: Tensor, axis: int) -> Tensor:
        like = logits.detach()
        rows = values.to(like.device).view(-1, *[1] * max(0, like.ndim - 2)).expand(len(like), *like.shape[2:])
        with torch.no_grad():
            received = send_back(near, order, spread(rows, like, 1 if like.ndim > 1 else None))
        sent = [received[start.node, start.output_nr] for start in starts]
        try:
            parts = torch.autograd.grad(starts, ends, sent, retain_graph=True)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # a compiled part or a re-entrant checkpoint
            raise FeatureError(f"the order of rows after the named layer is unknown ({error}): {CURE}.") from error
        return torch.cat([part.movedim(axis, 0).flatten(1) for part in parts])

    axes = (0, 1) if all(part.ndim == 3 for part in features) else (0,)
    for axis in axes:
        try:
            index = find_order(partial(send, axis=axis), len(logits))
        except FeatureError:
            if axis == axes[-1]:
                raise
        else:
            break
    return torch.cat([part.movedim(axis, 0) for part in features])[index].movedim(0, axis)


def _near_part(walk: Walk) -> Walk:
    """Return the part of a deep walk between the logits and the first nodes that compute something new."""
    near, waiting = Walk(walk.root), [walk.root]
    while waiting:
        key = waiting.pop()
        if key in near.useful:
            continue
        near.useful.add(key)
        if key in walk.calls or _computes(key[0]):
            near.calls[key] = Call(LayerHook(), None, key)
        else:
            waiting += [target for target in _behind(*key) if target in walk.useful]
    return near


def _classifier_rows(calls: Sequence[Call], walk: Walk, logits: Tensor, target: Tensor) -> Rows:
    conv = calls[0].hook.channels_first
    features = [_as_tensor(call.features, "the classifier's input").to(logits.device) for call in calls]
    target = squeeze_target(logits, target)
    if len(walk.useful) == 1:
        order: list[Node] = []
    else:
        order = walk.between()
        if any(RESIZES.match(node.name()) for node in order):
            [maps] = features
            return Rows(as_vectors(maps, True), resize_labels(target, maps.shape[2:]).reshape(-1))
    axis = class_axis(logits, target)
    labels, count = as_labels(target, logits, axis), count_rows(logits, axis)
    classes = 1 if axis is None else logits.shape[axis]
    vectors = [as_vectors(part, conv) for part in features]
    if len(walk.calls) > 1 or not all(POINTWISE.match(node.name()) or KEEPS.match(node.name()) for node in order):
        shared = len({call.hook for call in walk.calls.values()}) > 1
        groups = [[call] for call in calls] if shared else [list(calls)]
        routed = [
            _route(
                group,
                torch.cat(vectors) if len(group) > 1 else vectors[calls.index(group[0])],
                walk,
                order,
                logits,
                axis,
                conv,
            )
            for group in groups
        ]
        if any(not torch.equal(routed[0], part) for part in routed[1:]):
            raise FeatureError(f"layers with one input give rows in different orders: {CURE}.")
        return Rows(routed[0], labels, classes)
    if len(vectors[0]) != count:
        raise FeatureError(
            f"the classifier has {len(vectors[0])} rows of features and the logits have {count} rows: {CURE}, or name "
            "the layer that outputs them with features='...'."
        )
    return Rows(vectors[0], labels, classes)


def _route(
    calls: Sequence[Call], rows: Tensor, walk: Walk, order: Sequence[Node], logits: Tensor, axis: int | None, conv: bool
) -> Tensor:
    @torch.no_grad()
    def send(values: Tensor) -> Tensor:
        received = send_back(walk, order, spread(values, logits.detach(), axis))
        return torch.cat([as_vectors(received[call.key], conv) for call in calls])

    kinds = {node._input_metadata[number].dtype for node, number in walk.useful}
    return route(send, rows, count_rows(logits, axis), fine=kinds <= {torch.float32, torch.float64})


def _key_of(tensor: Tensor) -> Key | None:
    return None if tensor.grad_fn is None else (tensor.grad_fn, tensor.output_nr)


def _is_training(model: "ref[nn.Module] | None", taps: Iterable[Tap]) -> bool:
    """Return whether a model is in training mode; of a copied criterion, whether its layers are."""
    module = model() if model is not None else None
    while module is not None:
        inner = [module._modules[name] for name in ("module", "_orig_mod") if name in module._modules]
        if not inner or inner[0] is None:
            return module.training
        module = inner[0]
    layers = [layer for tap in taps if (layer := tap.layer()) is not None]
    return not layers or any(layer.training for layer in layers)


def _has_same_rows(output: Tensor, logits: Tensor) -> bool:
    """Return whether logits are a layer's output but for a scale and a number that is added to all classes of a row."""
    if output.shape != logits.shape or output.ndim < 2:
        return output.numel() == logits.numel() and torch.equal(output.flatten(), logits.flatten())
    before, after = (part.detach().double() - part.detach().double().mean(1, keepdim=True) for part in (output, logits))
    scale = (before * after).sum() / before.square().sum()
    return bool((after - scale * before).norm() <= 1e-3 * after.norm())


def _inputs(features: Any, hooks: Iterable[LayerHook]) -> list[Key]:
    """Return the identity of some features, then of the input of the layer that computed them, and so on."""
    chain: list[Key] = []
    while isinstance(features, Tensor) and (key := _key_of(features)) is not None and len(chain) < 4:
        while re.match(r"(View|Alias|ToCopy|Clone|NativeDropout)Backward", key[0].name()):
            [key] = list(_behind(*key))[:1] or [key]
        chain.append(key)
        calls = list(find_calls(key, hooks, deep=False).calls.values())
        features = calls[0].features if len(calls) == 1 else None
    return chain


def _as_tensor(features: Any, name: str) -> Tensor:
    if not isinstance(features, Tensor):
        kind = type(features).__name__
        raise FeatureError(f"{name} has type {kind}, not Tensor: name another layer with layer= or features=.")
    whole: Tensor = features.full_tensor() if hasattr(features, "full_tensor") else features
    return whole


def explain(
    source: "ClassifierSource | OutputSource", taps: dict[str, Tap], output: Any, logits: Tensor, walk: Walk | None
) -> str:
    """Return why the features of some logits were not found, and what to do."""
    hooks = {tap.hook: name for name, tap in taps.items()}
    if source.closed:
        return "the criterion was closed, so its hooks are gone: call opl.regularize again."
    if source.model is None and all(tap.layer() is None for tap in taps.values()):
        return "the criterion was copied or loaded without its model: call opl.regularize again, with the new model."
    if walk is None:
        return (
            "these logits carry no gradient, so no features can be found for them: call the criterion on the output of "
            "a pass with gradients, not detached, or after criterion.eval()."
        )
    parts = output if isinstance(output, tuple | list) else ()
    keys = [_key_of(part) if isinstance(part, Tensor) else None for part in parts]
    for index, key in enumerate(keys):
        if index and key is not None and find_calls(key, hooks, deep=False).calls:
            return (
                f"the first element of the model's output is not the logits, element {index} is: call "
                f"criterion(output[{index}], target)."
            )
    return _explain_graph(source, hooks, find_calls(walk.root, hooks, deep=True), walk)


def _explain_graph(
    source: "ClassifierSource | OutputSource", hooks: dict[LayerHook, str], behind: Walk, walk: Walk
) -> str:
    model = source.model() if source.model is not None else None
    layers = {} if model is None else classifiers(model)
    hooked = {id(layer) for layer in (tap.layer() for taps in _TAPS.values() for tap in taps.values())}
    new = ", ".join([repr(name) for name, layer in layers.items() if id(layer) not in hooked][:3])
    names = ", ".join(sorted({repr(hooks[call.hook]) for call in behind.calls.values()})) or "none"
    seen = {node.name() for node, _ in _all_keys(walk.root)}
    at = ", ".join(sorted(set(walk.obstacles))) or "no layer"
    if REENTRANT in seen:
        return (
            "the model ran inside a re-entrant checkpoint, which hides its layers from autograd: pass "
            "use_reentrant=False to the checkpoint."
        )
    if COMPILED in seen and any(hook.compiled is not None for hook in hooks):
        return (
            "these logits come from an earlier pass of a compiled model, or were changed inside it: call the criterion "
            f"right after each pass, or {CURE}."
        )
    if COMPILED in seen:
        return (
            "the model was compiled and run before opl.regularize was called, so it runs without hooks: call "
            "opl.regularize first, or torch.compiler.reset() after it."
        )
    if new and isinstance(source, ClassifierSource):
        return f"the model has a new layer {new} since opl.regularize was called: call opl.regularize again."
    if not _is_made_by(model, walk.root):
        return (
            "these logits do not depend on the model's parameters, so they are another model's, such as an averaged "
            "copy: call opl.regularize with the model that computes them."
        )
    if not behind.calls and not any(hook.ran for hook in hooks) and source.is_named:
        return f"{source.name} is not used by the model: name a layer that the model uses."
    if not behind.calls and isinstance(source, OutputSource):
        return (
            f"these logits were not computed from {source.name} with gradients, because the layer is unused or frozen: "
            "name a layer that is trained and used with features='...'."
        )
    if any(map(PRODUCTS.match, walk.obstacles)):
        return (
            f"the logits come from a product outside all layers ({at}, as of F.linear, matmul or einsum): name the "
            "layer whose output is the features with features='...'."
        )
    if any(map(CONVOLUTIONS.match, walk.obstacles)):
        return (
            f"the logits come from a convolution that is larger than 1 x 1 ({at}): name it with layer='...', one of "
            "model.named_modules()."
        )
    if behind.calls:
        return (
            f"{at} lies between the logits and the last linear layer, {names}: pass layer={names} if this layer is the "
            f"classifier; otherwise {CURE}."
        )
    return f"these logits were computed by {at}, which does not lead back to any of the model's layers: {WHERE}."


def _is_made_by(model: nn.Module | None, root: Key) -> bool:
    """Return whether a tensor depends on a parameter of a model; True if the model is unknown or frozen."""
    known = set() if model is None else {id(weight) for weight in model.parameters() if weight.requires_grad}
    leaves = (getattr(node, "variable", None) for node, _ in _all_keys(root))
    return not known or any(id(leaf) in known for leaf in leaves)


def _all_keys(root: Key) -> set[Key]:
    seen, waiting = {root}, [root]
    while waiting:
        new = {target for key in [waiting.pop()] for target in _behind(*key)} - seen
        seen |= new
        waiting += new
    return seen
