"""Functions of the program changed while it runs: inside of it, from the import of PyTorch on. Of ditrace_runner this takes how a
call is judged. ditrace_modes.native holds what the library (tracer/shim/extension) has for it."""
