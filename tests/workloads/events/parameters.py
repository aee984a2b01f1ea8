"""Parameters of modules: nested, tied, missing, of modules remade at their old address; and a leaf of no module. Each has as many
elements as no other; stdout has a line "ELEMENTS SURE NAME" for each, its name by named_parameters() ("-": none). SURE: its module
has been there for long, and stays. Argument: how many modules are remade."""
import itertools
import sys
import time

import torch
from torch import nn

sizes = itertools.count(3)


def parameter():
    return nn.Parameter(torch.ones(next(sizes)))


class Leaf(nn.Module):
    def __init__(self, swapped=False):
        super().__init__()
        for name in ("weight", "bias")[:: -1 if swapped else 1]:
            self.register_parameter(name, parameter())
        self.register_parameter("missing", None)

    def forward(self, x):
        return x * self.weight.sum() + self.bias.sum()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"a b": Leaf(), "c": nn.Sequential(Leaf(), Leaf())})
        self.scale = parameter()

    def forward(self, x):
        return self.layers["c"](self.layers["a b"](x)) * self.scale.sum()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.tied, self.head = Leaf(), Leaf()
        self.head.weight = self.tied.weight
        self.none = None

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(self.tied(x))


def say(named, sure):
    for name, p in named:
        print(p.numel(), int(sure), name, flush=True)


def train(net, free, times=1):
    for _ in range(times):
        (net(torch.ones(1)) / 1e6 + free.sum()).sum().backward()


net, free = Net(), torch.ones(next(sizes), requires_grad=True)
say(net.named_parameters(), True)
say([("-", free)], True)
train(net, free, 2)
time.sleep(1.5)  # what is seen late, on a busy machine, has no name yet
train(net, free, 20)
time.sleep(1.5)  # nor what has changed before it is looked at
for i in range(int(sys.argv[1])):
    again = Leaf(i % 2)
    say(again.named_parameters(), False)
    train(again, free)
    del again
# In the place of another, under the same name.
net.head.bias = parameter()
say([("head.bias", net.head.bias)], False)
train(net, free)
