"""Imported by programs with an optimizer: newer PyTorch imports torch._dynamo for it, which takes as long as all else, only to say
that its functions are not to be compiled. Under make test it does when it is asked for more than that, else at once."""

import importlib
import os
import sys
import types

import torch


class Dynamo(types.ModuleType):
    @staticmethod
    def disable(function, *_, **__):
        return function

    @staticmethod
    def graph_break(*_, **__):
        pass

    def __getattr__(self, name):
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
            torch._dynamo = importlib.import_module(self.__name__)
        return getattr(sys.modules[self.__name__], name)


is_short = "WARM_PYTHONS" in os.environ and not os.environ.get("LONG")  # of tests/run
if is_short and hasattr(torch, "_disable_dynamo") and "torch._dynamo" not in sys.modules:
    sys.modules["torch._dynamo"] = torch._dynamo = Dynamo("torch._dynamo")
