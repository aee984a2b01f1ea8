# The program that replay runs (worker.c), after first.py and loader.py.
sys.meta_path.insert(0, EMBEDDED)

from ditrace_runner.serve import main

main()
