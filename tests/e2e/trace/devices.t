#!/usr/bin/env bash
# What devices did, in the views of a trace: they agree, and arrows lead from the ops that launched it.
. "$(dirname "$0")/../lib.sh"

all_forms() {
	local to
	for to in csv chrome folded speedscope perfetto svg html; do
		"$DITRACE" export --to "$to" "$T/data" >"$T/$to" || return 1
	done
	"$DITRACE" export --to sqlite -o "$T/db" "$T/data" && "$DITRACE" report --format json "$T/data" >"$T/report.json"
}

"$BUILD/tests/tools/device_trace" "$T/data"
"$DITRACE" script --format jsonl --only ops "$T/data" >"$T/events"
"$DITRACE" script --format jsonl --only activities "$T/data" >"$T/activities"
"$DITRACE" script "$T/data" >"$T/text" 2>"$T/err"
is "script has one line an activity" "$(grep -c ' s  cuda:0 stream ' "$T/text")" "$(wc -l <"$T/activities")"
like "with the op and the line" "$T/text" 'stream 7  80 us  void cutlass.*  launched 4.0 us before by aten::addmm id:3    /home/me/train.py:12 Block.forward'
like "or that it is not known" "$T/text" 'ncclDevKernel_AllReduce\(int\)  launch not known$'
like "some were lost" "$T/err" '17 activities of devices lost'
ok "export in all forms" all_forms
ok "all say the same, and are well formed" python3 "$here/compare_exports.py" "$T"
ok "perfetto, too" verify trace/perfetto "$T/perfetto" "$T/events" "$T/activities"
ok "and the page" verify trace/device_page "$T/html" "$T/events" "$T/activities"
"$DITRACE" export --to folded --devices "$T/data" >"$T/folded" 2>"$T/err"
like "folded has the time on devices by op and kernel" "$T/folded" '^main \(train.py:40\);Block.forward \(train.py:12\);aten::addmm;void cutlass.* 960000$'
error "which csv has not" 'folded and svg' "$DITRACE" export --to csv --devices "$T/data"
"$DITRACE" export --to chrome --step 2 "$T/data" >"$T/chrome"
ok "and chrome of a step" python3 "$here/chrome_trace.py" "$T/chrome"
done_testing
