#!/usr/bin/env bash
# The marks of lines.py are the lines that Python itself gives.
. "$(dirname "$0")/../lib.sh"

check() {
	ok "marks are right" "$PY" lines.py --check
}
each_torch check
done_testing
