# Begins what ditrace runs in a Python: the packages of SOURCES, {module: text}, can be imported while EMBEDDED is among
# the finders of import. SOURCES is there already.
import importlib.machinery
import sys


class Embedded:
    """A finder and loader for modules whose texts are given."""

    def __init__(self, sources):
        self.sources = sources
        self.compiled = None  # called with the code of each module

    def find_spec(self, name, path=None, target=None):
        if name not in self.sources:
            return None
        is_package = any(other.startswith(name + ".") for other in self.sources)
        return importlib.machinery.ModuleSpec(name, self, is_package=is_package)

    def create_module(self, spec):
        return None  # an ordinary one

    def exec_module(self, module):
        name = module.__name__
        code = compile(self.sources[name], self.file_of(name), "exec", dont_inherit=True)
        if self.compiled:
            self.compiled(code)
        exec(code, module.__dict__)

    def get_source(self, name):
        """For the lines of a traceback (linecache)."""
        return self.sources[name]

    @staticmethod
    def file_of(name):
        """ditrace/modes/link.py of ditrace_modes.link: the names of files that are not the program's begin so."""
        return name.replace("ditrace_", "ditrace/", 1).replace(".", "/") + ".py"

    def forget(self):
        """None of these packages was imported."""
        packages = {name.partition(".")[0] for name in self.sources}
        for name in [n for n in list(sys.modules) if n.partition(".")[0] in packages]:
            sys.modules.pop(name, None)


EMBEDDED = Embedded(SOURCES)
