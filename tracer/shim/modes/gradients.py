"""Gradients: what the nodes of one call give, at the edges where they leave it."""
import time

from torch.autograd import Variable

from ditrace_modes.autocast import is_cast_node
from ditrace_modes.calls import quietly
from ditrace_modes.live import cpu_copy
from ditrace_modes.native import backward_came, backward_comes, is_busy, is_out, spend, tensors_in
from ditrace_modes.verdicts import judge
from ditrace_runner.judge import as_autograd_sums
from ditrace_runner.load import LOCATIONS


def nodes_between(first, edges, is_outside, most=64):
    """[(node, place, id of the input)] of all that leaves the nodes from `first` on to one of the edges; None where
    it cannot be told. is_outside: of the cast of an input, whether it is no part of the call."""
    found, todo, seen = [], [first], set()
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        if len(seen) > most:
            return None
        for k, (to, nr) in enumerate(node.next_functions):
            if to is None:
                continue
            cast = is_outside(to) and edges.get(to.next_functions[0])
            if (to, nr) in edges:  # before all: an argument may come from a cast of another one
                found.append((node, k, edges[to, nr]))
            elif cast:
                found.append((node, k, cast))
            elif not to.next_functions:
                return None  # the gradient of a leaf that is no argument
            else:
                todo.append(to)
    return found


class Backward:
    """Collects what the backward of one call gets and gives, and judges it when all is there. It is one backward of the program's:
    the nodes may run in another one, too, in part, for another gradient, or for one of this gradient."""

    def __init__(self, live, at, number, shapes, taken):
        self.live, self.at, self.number, self.shapes, self.missing = live, at, number, shapes, 0
        self.taken = taken
        backward_comes(taken)

    def came(self, judged=False, came=backward_came):
        taken, self.taken = self.taken, 0
        came(taken, judged)

    __del__ = came

    def watch(self, node, leaving):
        places = {}
        for n, k, of in leaving:
            places.setdefault(n, []).append((k, of))
        places.setdefault(node, [])
        for n, where in places.items():
            n.register_hook(self.hook(len(places) if n is node else 0, where))

    def hook(self, nodes, where):
        """nodes: of the one that runs first, how many there are."""
        done = []

        def called(grad_inputs, grad_outputs):
            if done or self.live is None or not (nodes or self.missing) or is_out() or is_busy():
                return
            done.append(True)
            quietly(spending, self.taken, True, self.take, nodes, where, grad_inputs, grad_outputs)

        return called

    def over(self):
        """The backward is, in which some nodes may not have run: nobody asked for what they give."""
        if self.missing and not is_out():
            quietly(spending, self.taken, True, self.take_all)

    def take(self, nodes, where, grad_inputs, grad_outputs):
        if nodes:
            self.missing = nodes
            if nodes > 1:
                Variable._execution_engine.queue_callback(self.over)
            self.live.parts["grad_outputs"] = {"args": [None if g is None else cpu_copy(g) for g in grad_outputs]}
        for k, of in where:
            g = grad_inputs[k]
            if g is None:
                continue
            g = as_autograd_sums(cpu_copy(g), self.shapes[of])
            setattr(g, LOCATIONS, str(grad_inputs[k].device))
            was = self.live.grads.get(of)
            if was is not None:  # two ways to the same input
                at, g = getattr(g, LOCATIONS), was + g
                setattr(g, LOCATIONS, at)
            self.live.grads[of] = g
        self.missing -= 1
        if not self.missing:
            self.take_all()

    def take_all(self):
        self.missing = 0
        if self.live.grads and "grad_outputs" in self.live.parts:
            self.live.parts["grad_inputs"] = {"of": (), "args": ()}
            self.end()
            self.came(True)
        self.live = None

    @staticmethod
    def is_outside(live, node):
        return bool(live.casts) and is_cast_node(node)

    def end(self):
        judge(self.live, True, self.at, self.number)


def watch_backward(live, edges, result, at, number, kind=Backward, taken=0):
    # A result that is one of the arguments, as of type_as, has no node of this call.
    outs = [t for t in tensors_in(result) if t.requires_grad and t.grad_fn is not None and (t.grad_fn, t.output_nr) not in edges]
    if not edges or not outs or len({t.grad_fn for t in outs}) != 1 or live.changes_inputs:
        return
    leaving = nodes_between(outs[0].grad_fn, edges, lambda node: kind.is_outside(live, node))
    if leaving:
        shapes = {id(c): c.detach() for c in live.copied.values()}
        kind(live, at, number, shapes, taken).watch(outs[0].grad_fn, leaving)


def spending(taken, is_backward, f, *args):
    """What it does counts as time of comparing."""
    began = time.perf_counter_ns()
    try:
        f(*args)
    finally:
        spend(taken, is_backward, time.perf_counter_ns() - began)
