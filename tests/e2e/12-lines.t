#!/usr/bin/env bash
# Every marked op shows its own source line; backward nodes point to the line of their forward op.
. "$(dirname "$0")/lib.sh"
need_tracing

lines() {
	ok "the workload runs traced" trace -- "$PY" lines.py
	ok "the events can be read" events
	ok "every mark is right" "$PY" "$here/compare_lines.py" "$T/events" "$W/lines.py"
	"$DITRACE" report --format json "$T/data" >"$T/report"
	ok "the report names a backward op's forward line" "$PY" - "$T/report" <<-'EOF'
		import json, sys
		text = open(sys.argv[1]).read()
		sys.exit("ThresholdBackward0" not in text or "lines.py" not in text)
	EOF
}
each_torch each_engine lines
done_testing
