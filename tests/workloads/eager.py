"""Imported by programs with an optimizer: newer PyTorch imports torch._dynamo for it, which takes as long as all else, only to say
that its functions are not to be compiled. Here it does when it is asked for more than that, and always under make test-long."""

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


if hasattr(torch, "_disable_dynamo") and "torch._dynamo" not in sys.modules and not os.environ.get("LONG"):
    sys.modules["torch._dynamo"] = torch._dynamo = Dynamo("torch._dynamo")
