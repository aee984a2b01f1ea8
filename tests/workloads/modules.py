"""Modules in all places: nested, in lists, shared, called alone, calling themselves, remade at their old
address. Each module's forward runs an op on a tensor of a length of its own; stdout has a line "LENGTH SURE PATH"
for each, what `ditrace report --group module` is to say."""
import time

import torch
from torch import nn

LAST = [0]
SURE = [0]  # 1: the modules have been there for long, and stay


class Counted(nn.Module):
    """Runs aten::full of a length that no other call has, and notes where."""

    def mark(self, path):
        LAST[0] += 1
        torch.full((LAST[0],), 1.0)
        print(LAST[0], SURE[0], path, flush=True)


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


def remade():
    """Models at the same addresses, one after the other."""
    for i in range(8):
        leaf = [Leaf(), nn.Identity()]
        model = nn.Sequential(*(leaf[::-1] if i % 2 else leaf))
        model("1" if i % 2 else "0")
        time.sleep(0.05)  # what has gone when it is looked for has no path
        del model, leaf


def main():
    net = Net()
    for _ in range(3):
        torch.full((9999,), 2.0)
        net()
    for _ in range(2):  # what is looked for late, on a busy machine, has no path yet
        time.sleep(1.5)
        net()
    time.sleep(1)
    SURE[0] = 1
    net()
    SURE[0] = 0
    alone = Leaf()
    alone("(Leaf)")
    direct = Direct()
    direct("(Direct)")
    time.sleep(0.2)
    remade()


if __name__ == "__main__":
    main()
