#!/usr/bin/env bash
# report in a real terminal, narrow and wide.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../tmux.sh"
[ -x "$DITRACE" ] || { echo "Bail out! $DITRACE is not built" && exit 1; }
cd "$here" || exit 1

# report_is NAME OPTION...: golden screens of two sizes
report_is() {
	local name=$1 size
	shift
	for size in 80x24 120x40; do
		terminal $size env PAGER=cat "$DITRACE" report "$@" "$T/data" && shows '^status 0'
		ok "report $* at $size" golden "$name-$size"
	done
}

ok "a trace" "$BUILD/tests/tools/trace_tool" "$T/data" 200 golden/model.py
report_is report -n 4
report_is report-modules --group module
report_is report-per-step --per-step -n 4
done_testing
