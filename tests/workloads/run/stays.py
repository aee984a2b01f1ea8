"""Until its standard input ends."""

import sys

sys.stdin.read()
