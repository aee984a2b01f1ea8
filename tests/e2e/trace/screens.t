#!/usr/bin/env bash
# report and annotate in a real terminal, narrow and wide.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../tmux.sh"
[ -x "$DITRACE" ] || { echo "Bail out! $DITRACE is not built" && exit 1; }
cd "$here" || exit 1

# screens_are NAME COMMAND...: golden screens of two sizes
screens_are() {
	local name=$1 size
	shift
	for size in 80x24 120x40; do
		terminal $size env PAGER=cat "$DITRACE" "$@" && shows '^status 0'
		ok "$1 as in $name-$size" golden "trace/$name-$size"
	done
}

ok "a trace" "$BUILD/tests/tools/trace_tool" "$T/data" 200 golden/model.py
screens_are report report -n 4 "$T/data"
screens_are report-modules report --group module "$T/data"
screens_are report-per-step report --per-step -n 4 "$T/data"
screens_are annotate annotate -i "$T/data"
done_testing
