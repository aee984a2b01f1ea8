#!/usr/bin/env python3
"""Runs programs in children that have PyTorch already, and the modules where there are such, one after the other: forked.py ORDERS [MODULE...]. For each line of standard
input, a name for the order, the file ORDERS says what, with a zero after each: a folder, a file for standard output, one for standard error (both are appended to),
"wait" or "go", and the program with its arguments, which is a file, or -c and code. Answers with "pid NAME PID" at once and "ended NAME STATUS" at the end.
"wait": it begins when the functions or the operators of its thread are met by a mode."""

import contextlib
import gc
import importlib
import os
import sys
import time

import torch

import ending


def modes():
    operators = getattr(torch._C, "_len_torch_dispatch_stack", torch._C._get_torch_dispatch_mode
                        if hasattr(torch._C, "_get_torch_dispatch_mode") else int)
    return torch._C._len_torch_function_stack() or operators()


def become(folder, out, err, when, *argv):
    os.chdir(folder)
    for path, fd in ((out, 1), (err, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), fd)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    end = time.monotonic() + float(os.environ.get("PATIENCE", 180))
    while when == "wait" and not modes():
        if time.monotonic() > end:
            sys.exit("forked.py: nobody has come")
        torch.ones(1)  # a thread is entered at an operator
        time.sleep(0.005)
    if argv[0] == "-c":
        sys.argv = ["-c", *argv[2:]]
        sys.path[0] = ""
        return compile(argv[1], "<string>", "exec")
    sys.argv = list(argv)
    globals()["__file__"], sys.path[0] = argv[0], os.path.dirname(os.path.abspath(argv[0]))
    with open(argv[0], encoding="utf-8") as f:
        return compile(f.read(), argv[0], "exec")


def serve():
    for name in sys.argv[2:]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()  # what is collected in a child is copied
    for number in map(str.strip, sys.stdin):
        with open(sys.argv[1], encoding="utf-8") as f:
            order = f.read().split("\0")[:-1]
        pid = os.fork()
        if not pid:
            return become(*order)
        print("pid", number, pid, flush=True)
        status = os.waitpid(pid, 0)[1]
        print("ended", number, os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status), flush=True)
    return compile("", "", "exec")


with ending.Ending():
    exec(serve())
