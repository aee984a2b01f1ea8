#!/usr/bin/env bash
# --memory: what ops allocate and free is what PyTorch's profiler says.
. "$(dirname "$0")/../lib.sh"
need_tracing

measured() {
	"$(warmed)" trace/memory.py profile 2>/dev/null | tail -n 1 >"$T/profiled"
	"$(warmed)" trace/memory.py >"$T/alone" 2>/dev/null
	"$DITRACE" run --memory --engine shim -o "$T/data" -- "$PY" trace/memory.py >"$T/out" 2>"$T/err"
	ok "the program computes the same" grep -qxF -f "$T/alone" "$T/out"
	"$DITRACE" report --group op --format json "$T/data" >"$T/report"
	ok "each op has what the profiler says" python3 "$here/trace/memory.py" "$T/profiled" "$T/report"
	"$DITRACE" script --only memory --format jsonl "$T/data" >"$T/events"
	for to in chrome perfetto sqlite; do "$DITRACE" export --to "$to" -o "$T/$to" "$T/data"; done
	ok "exports have the same" verify trace/memory_exports "$T/events" "$T/chrome" "$T/perfetto" "$T/sqlite"
	"$DITRACE" report --format json "$T/data" >"$T/by_line"
	for way in callees callers; do "$DITRACE" report --call-graph "$way" --format json "$T/data" >"$T/$way"; done
	"$DITRACE" export --to html -o "$T/page" "$T/data"
	ok "call graphs and the page, too" verify trace/memory_graph "$T/by_line" "$T/report" "$T/callees" "$T/callers" "$T/page"
	like "the graph has columns of it" <("$DITRACE" report --call-graph callees "$T/data") '^Total% +Calls +Alloc +Freed +Dev alloc +Dev freed  Frame'
	like "and of a frame all below it" <("$DITRACE" report --call-graph callees "$T/data") ' 8\.0 MiB .* - +- .*work \(memory.py:32\)$'
	like "as text" <("$DITRACE" script --only memory "$T/data") '  cuda:0  4\.0 MiB freed at 0x1000, now 1\.0 MiB of 22\.0 MiB reserved  in no op'
	ok "rows are sorted by each of its columns" python3 "$here/compare_memory_sorts.py" "$T/data"
	"$DITRACE" report --sort peak "$T/data" >"$T/table"
	like "the peak, and what held it" "$T/table" '^peak of memory on cpu: 1[67]\.[0-9] MiB.*: [45][0-9] % '
	like "columns of memory" "$T/table" 'Alloc +At peak v'
	like "a line for each device" "$T/table" '^peak of memory on cuda:0: 5\.0 MiB of up to 22\.0 MiB that were reserved, .* after the first op$'
}

each_torch measured
"$DITRACE" run --memory --engine ptrace -o "$T/data" -- true 2>"$T/err"
like "other engines say that they do not see it" "$T/err" '--memory: the engine ptrace does not see'
done_testing
