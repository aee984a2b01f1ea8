# What a Python that ditrace starts for itself runs before it imports anything. The current folder may be a stranger's.
import sys

sys.path[:] = [p for p in sys.path if p not in ("", "/", "/proc/self/fd")]  # the folder of a program given by descriptor
