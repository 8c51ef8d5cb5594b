"""Hooks that leave a note on the autograd graph: what went into a layer, at the node of what came out.

A note lives exactly as long as the graph that it stands on. So nothing has to be cleared, two passes cannot be mixed
up, a pass without gradients leaves nothing, and replicas in threads do not disturb each other. Inside a compiled model
there is no graph to write on while it is traced; there the hook keeps the last pass instead.
"""

from contextlib import nullcontext
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, finalize, ref

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node

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
