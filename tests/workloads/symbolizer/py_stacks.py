"""Threads that sleep at the end of many kinds of Python stacks, each having said what its stack is.

Prints {"count"}, then that many JSON objects, one a line, in any order: {"name", "ident", "native", "sleep": [line,
column, end_column], "stack": [[file, function, line, end_line, column, end_column, text], ...]}, the caller of
hold() first. The columns are null before 3.11. Then it waits to be killed."""
import asyncio
import functools
import itertools
import json
import linecache
import os
import shutil
import sys
import tempfile
import threading
import time

OUT = threading.Lock()
HERE = os.path.abspath(__file__)


def positions(frame):
    code = frame.f_code
    if not hasattr(code, "co_positions"):
        return None, None, None
    at = next(itertools.islice(code.co_positions(), frame.f_lasti // 2, None))
    return at[1], at[2], at[3]


def describe(frame):
    code = frame.f_code
    name = getattr(code, "co_qualname", code.co_name)
    text = linecache.getline(code.co_filename, frame.f_lineno or 0).strip()
    return [code.co_filename, name, frame.f_lineno, *positions(frame), text]


def hold(name):
    stack = []
    frame = sys._getframe(1)
    while frame:
        stack.append(describe(frame))
        frame = frame.f_back
    sleep = linecache.getlines(HERE)
    line = next(i for i, s in enumerate(sleep, 1) if s.endswith("# held here\n"))
    code = sleep[line - 1].split("#")[0].rstrip()
    with OUT:
        print(json.dumps({"name": name, "ident": threading.get_ident(),
                          "native": threading.get_native_id(), "thread": threading.current_thread().name,
                          "sleep": [line, len(code) - len(code.lstrip()), len(code)],
                          "stack": stack}), flush=True)
    time.sleep(3600)  # held here


def nested():
    def middle(x):
        def inner():
            y = x + 1
            hold("nested")
            return y
        return inner() + 1
    return middle(1)


def counting(n):
    for i in range(n):
        if i == 2:
            hold("generator")
        yield i


def delegating():
    yield -1
    yield from counting(5)


def generator():
    total = 0
    for x in delegating():
        total += x
    return total


def list_comprehension():
    return [hold("list comprehension") if i else i
            for i in range(3)]


def dict_comprehension():
    return {k: [hold("dict comprehension")
                for _ in range(2)] for k in "ab"}


def generator_expression():
    return sum(hold("generator expression") or 1 for _ in range(3))


def class_body():
    class Made:
        attribute = 1

        class Inner:
            here = hold("class body")
    return Made


def several(*args, **kwargs):
    return args, kwargs


def multi_line():
    return several(
        1,
        several(
            2,
            3),
        several(
            hold("multi line"),
            4,
        ),
        key=5,
    )


class Chain:
    def first(self):
        return self

    def last(self, value):
        hold("chain")
        return value


def chained():
    return (Chain()
            .first()
            .first()
            .last(
                "x"))


def executed():
    source = "\n\ndef made():\n    x = 1\n    held('executed')\n    return x\n\nmade()\n"
    exec(compile(source, "<täst>", "exec"), {"held": hold})


def jumps():
    """Lines far apart, and an instruction whose line lies before the one before it."""
    far = "\n" * 700
    source = ("def made(f):\n    a = f(0)\n" + far + "    b = f(\n" + far +
              "        0,\n" + far + "        held('jumps')\n    )\n    return a, b\n" +
              "made(lambda *a: a)\n")
    exec(compile(source, "<jumps>", "exec"), {"held": hold})


def wide():
    """Columns above 80 and above 256."""
    pad = "x = " + " + ".join(["1"] * 200)
    exec(compile(pad + "; y = [held('wide')]\n", "<wide>", "exec"), {"held": hold})


def recursion(n=60):
    if n == 0:
        hold("recursion")
        return 0
    return recursion(n - 1) + 1


def sort_key(x):
    if x == 3:
        hold("called from C")
    return -x


def called_from_c():
    return sorted(map(functools.partial(max, 0), [1, 2, 3]), key=lambda x: sort_key(x))


class Operators:
    def __add__(self, other):
        return other[self]

    def __getitem__(self, key):
        return key.attribute

    @property
    def attribute(self):
        with self:
            return 1

    def __enter__(self):
        try:
            raise ValueError
        except ValueError:
            hold("operators")
        finally:
            several()

    def __exit__(self, *args):
        return False


def operators():
    a, b = Operators(), Operators()
    return (1,
            a +
            b)


async def leaf():
    hold("coroutine")


async def branch():
    await asyncio.sleep(0)
    await leaf()


def coroutine():
    asyncio.run(branch())


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args):
        return f"{1:>{function(*args)}}"
    return wrapper


@decorated
def decoration(width=10):
    hold("decorator")
    return width


def many_locals():
    a = b = c = d = e = f = g = 1
    def inner(): return a, b, c, d, e, f, g
    lambda_ = lambda: (inner(), hold("cells"))  # noqa
    return lambda_()


def module(name, body):
    # Python reads the name through the file system's encoding, so it must be one of a real file.
    directory = tempfile.mkdtemp(prefix="ditrace-test-")
    path = os.path.join(directory, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(body)
    with open(path, encoding="utf-8") as f:
        code = compile(f.read(), path, "exec")
    shutil.rmtree(directory)
    exec(code, {"held": hold})


def latin_1():
    module("größe.py", "def höhe(é):\n    'ä'; held('latin-1')\n\nhöhe(1)\n")


def ucs2():
    module("模块.py", "class 类:\n    def 函数(self):\n        '日本'; held('ucs2')\n\n类().函数()\n")


def ucs4():
    module("\U0001f600.py", "def \U00020000(x):\n\theld('ucs4')\n\n(\n  \U00020000(1))\n")


def imported():
    directory = tempfile.mkdtemp(prefix="ditrace-test-")
    with open(os.path.join(directory, "held_on_import.py"), "w") as f:
        f.write("import __main__, os, shutil\n\nshutil.rmtree(os.path.dirname(__file__))\n"
                "__main__.hold('import')\n")
    sys.path.insert(0, directory)
    import held_on_import
    return held_on_import


SCENARIOS = [nested, generator, list_comprehension, dict_comprehension, generator_expression, class_body,
             multi_line, chained, executed, jumps, wide, recursion, called_from_c, operators, coroutine,
             decoration, many_locals, latin_1, ucs2, ucs4, imported]

if __name__ == "__main__":
    print(json.dumps({"count": len(SCENARIOS) + 1}), flush=True)
    for scenario in SCENARIOS:
        threading.Thread(target=scenario, daemon=True).start()
    hold("main")
