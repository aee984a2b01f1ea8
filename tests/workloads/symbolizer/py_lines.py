"""What the interpreter itself says of the lines of every code object of some modules of its library.

Prints one JSON object a code object: {"name", "first", "table": hex, "truth": [[start, end, line, end_line, column,
end_column], ...]} with byte offsets of instructions; null: none. The last three are null before 3.11."""
import dis
import importlib.util
import json
import sys

MODULES = ["argparse", "inspect", "dataclasses", "_pydecimal", "difflib", "contextlib", "asyncio.tasks", "this",
           "test.test_exceptions", "test.test_traceback"]


def from_positions(code):
    start = 0
    for line, end_line, column, end_column in code.co_positions():
        yield [start, start + 2, line, end_line, column, end_column]
        start += 2


def from_lines(code):
    for start, end, line in code.co_lines():
        yield [start, end, line, None, None, None]


def from_linestarts(code):
    starts = list(dis.findlinestarts(code))
    ends = [s for s, _ in starts[1:]] + [len(code.co_code)]
    for (start, line), end in zip(starts, ends):
        yield [start, end, line, None, None, None]


def truth(code):
    if hasattr(code, "co_positions"):
        return list(from_positions(code))
    if hasattr(code, "co_lines"):
        return list(from_lines(code))
    return list(from_linestarts(code))


def walk(code):
    yield code
    for const in code.co_consts:
        if hasattr(const, "co_code"):
            yield from walk(const)


for module in MODULES:
    spec = importlib.util.find_spec(module)
    if not spec:
        continue
    with open(spec.origin, "rb") as f:
        code = compile(f.read(), module, "exec", dont_inherit=True)
    for c in walk(code):
        table = c.co_linetable if sys.version_info >= (3, 10) else c.co_lnotab
        print(json.dumps({"name": module + "." + c.co_name, "first": c.co_firstlineno, "table": table.hex(),
                          "truth": truth(c)}))
