# The program that replay runs (worker.c), after loader.py.
sys.path[:] = [p for p in sys.path if p not in ("", "/", "/proc/self/fd")]  # the folder of this file is none
sys.meta_path.insert(0, EMBEDDED)

from ditrace_runner.serve import main

main()
