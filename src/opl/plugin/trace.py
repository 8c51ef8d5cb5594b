"""From logits back through the autograd graph to the layer that made them."""

import re
from collections.abc import Collection
from typing import Any, NamedTuple

from torch import Tensor
from torch.autograd.graph import GradientEdge, Node

from .hooks import LayerHook, note_of

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
