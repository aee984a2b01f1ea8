#!/usr/bin/env bash
# The marks of events/lines.py are on the lines that Python itself reports.
. "$(dirname "$0")/../lib.sh"

check() {
	ok "marks are right" "$PY" events/lines.py --check
}
each_torch check
done_testing
