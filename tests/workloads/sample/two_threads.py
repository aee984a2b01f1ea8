"""Two threads that run a model of several modules without an end."""

import threading

import torch

torch.set_num_threads(1)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.out = torch.nn.Linear(512, 512), torch.nn.Linear(512, 512)

    def forward(self, x):
        return self.out(torch.relu(self.fc(x)))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])

    def forward(self, x):
        return self.blocks[1](self.blocks[0](x))


def work():
    while True:
        net(x)


net, x = Net(), torch.randn(256, 512)
for _ in range(2):
    threading.Thread(target=work).start()
print("ready", flush=True)
