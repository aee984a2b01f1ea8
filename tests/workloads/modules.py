"""Modules in all places: nested, in lists, shared, called alone, calling themselves, remade at their old
address. Each module's forward runs an op on a tensor of a length of its own; stdout has a line "LENGTH SURE PATH"
for each, what `ditrace report --group module` is to say."""
import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

LAST = [0]
SURE = [0]  # 1: the modules have been there for long, and stay


class Counted(nn.Module):
    """Runs aten::full of a length that no other call has, and notes where."""

    def mark(self, path):
        LAST[0] += 1
        torch.full((LAST[0],), 1.0)
        print(LAST[0], int(SURE[0]), path, flush=True)


class Leaf(Counted):
    def forward(self, path):
        self.mark(path)


class Attention(Counted):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = Leaf(), Leaf()

    def forward(self, path):
        self.qkv(path + ".qkv")
        self.helper(path)
        self.out(path + ".out")

    def helper(self, path):
        self.mark(path)


class Block(Counted):
    def __init__(self):
        super().__init__()
        self.attn, self.mlp = Attention(), nn.Sequential(Leaf(), nn.Identity())
        self.hidden = [Leaf()]  # in nobody's tree

    def forward(self, path):
        self.attn(path + ".attn")
        self.mlp(path + ".mlp.0")
        self.hidden[0]("(Leaf)")


class Again(Counted):
    """Calls itself, and a child that calls it."""

    def __init__(self):
        super().__init__()
        self.child = Caller([self])

    def forward(self, path, times=2):
        self.mark(path)
        if times:
            self(path, times - 1)
            self.child(path, times - 1)


class Caller(Counted):
    def __init__(self, whom):
        super().__init__()
        self.whom = whom

    def forward(self, path, times):
        self.mark(path + ".child")
        self.whom[0](path, times)


class Net(Counted):
    def __init__(self):
        super().__init__()
        shared = Leaf()
        self.embed = shared
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.heads = nn.ModuleDict({"a": Leaf(), "a b": Leaf()})
        self.tied = shared
        self.again = Again()
        self.passed = Caller([self.heads["a"]])

    def forward(self):
        self.mark("(Net)")
        self.embed("embed")
        self.tied("embed")  # one module, by the first of its names
        for i, block in enumerate(self.blocks):
            block("blocks.%d" % i)
        self.heads["a"]("heads.a")
        self.again("again")


class Direct(Counted):
    """Holds its module where no tree has it, and an op of its own after that of its child."""

    def __init__(self):
        super().__init__()
        self.child = Leaf()

    def forward(self, path):
        self.child("child")
        self.mark(path)


class Scale(torch.autograd.Function):
    """Calls an op and a module in its backward."""

    @staticmethod
    def forward(ctx, x, module, path):
        ctx.module, ctx.path = module, path
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        ctx.module.mark(ctx.path)
        ctx.module.leaf(ctx.path + ".leaf")
        return grad, None, None


class Scaled(Counted):
    def __init__(self):
        super().__init__()
        self.leaf = Leaf()

    def forward(self, x, path):
        self.leaf(path + ".leaf")
        self.mark(path)
        return Scale.apply(x.exp(), self, path).exp()


class Checked(Counted):
    """Runs its children again in the backward: one module, and a function that calls two."""

    def __init__(self, reentrant):
        super().__init__()
        self.reentrant = reentrant
        self.alone, self.first, self.second = Scaled(), Scaled(), Scaled()

    def forward(self, x, path):
        x = checkpoint(self.alone, x, path + ".alone", use_reentrant=self.reentrant)
        return checkpoint(self.both, x, path, use_reentrant=self.reentrant)

    def both(self, x, path):
        # Of a function that runs again, only a checkpoint's own node knows who has called it.
        sure, SURE[0] = SURE[0], SURE[0] and self.reentrant
        self.mark(path)
        SURE[0] = sure
        return self.second(self.first(x, path + ".first"), path + ".second")


class Trained(Counted):
    def __init__(self):
        super().__init__()
        self.checked = nn.ModuleList(Checked(reentrant) for reentrant in (True, False))

    def forward(self, x):
        for i, checked in enumerate(self.checked):
            x = checked(x, "checked.%d" % i)
        return x


def train(model):
    x = torch.ones(1, requires_grad=True)
    (model(x / 1e6) / 1e6).sum().backward()


def remade():
    """Models at the same addresses, one after the other."""
    for i in range(8):
        leaf = [Leaf(), nn.Identity()]
        model = nn.Sequential(*(leaf[::-1] if i % 2 else leaf))
        model("1" if i % 2 else "0")
        time.sleep(0.05)  # what has gone when it is looked for has no path
        del model, leaf


def main():
    net, trained = Net(), Trained()
    for _ in range(3):
        torch.full((9999,), 2.0)
        net()
        train(trained)
    for _ in range(2):  # what is looked for late, on a busy machine, has no path yet
        time.sleep(1.5)
        net()
        train(trained)
    time.sleep(1)
    SURE[0] = 1
    net()
    train(trained)
    SURE[0] = 0
    alone = Leaf()
    alone("(Leaf)")
    direct = Direct()
    direct("(Direct)")
    time.sleep(0.2)
    remade()


if __name__ == "__main__":
    main()
