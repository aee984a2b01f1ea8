#!/usr/bin/env bash
# The module that each op ran in: nested, in lists, shared, alone, recursive, re-created at its old address, run again by
# checkpoints, called in the backward. And the parameter whose gradient a node adds to.
. "$(dirname "$0")/../lib.sh"
. "$here/attached.sh"
need_tracing

# paths_are_right: no path differs from what the program reports, and where it is certain none is missing
paths_are_right() {
	"$DITRACE" report --group op,shape,module --when 'op == "aten::fill_.Scalar"' --format json "$T/data" >"$T/report" &&
		"$PY" "$here/compare_modules.py" "$T/report" "$T/out"
}

# bpf with each PyTorch, the other engines with one each
modules() {
	local engines=(bpf "${others[0]}")
	! in_long || engines=(bpf shim ptrace)
	in_long || skip "${others[1]}: with the other PyTorch, or make test-long"
	for engine in "${engines[@]}"; do
		ENGINE=$engine recorded -- modules.py
		ok "$engine: each op has the path of its module" paths_are_right
	done
	ok "a column, and sorted" grep -q 'blocks.1.attn.qkv' \
		<("$DITRACE" report --group op,module --sort module --columns calls,op,module --percent-limit 0 "$T/data")
	like "a tree" <("$DITRACE" report --group module --percent-limit 0 "$T/data") 's  +qkv$'
}

# parameter_columns: in CSV, JSON and SQLite
parameter_columns() {
	for f in json csv; do "$DITRACE" report --group op,line --format $f "$T/data" >"$T/$f" || return; done
	"$DITRACE" export --to sqlite -o "$T/db" "$T/data" && verify events/parameter_columns "$T/events" "$T/json" "$T/csv" "$T/db"
}

# bpf with each torch, the other engines with one each
parameters() {
	[ "$ENGINE" = bpf ] || [ "$ENGINE" = "${others[0]}" ] || in_long || { skip "with the other PyTorch, or make test-long" 4; return; }
	recorded -- events/parameters.py 20
	events
	ok "a gradient accumulation has the name of its parameter, or none" verify events/parameters "$T/events" "$T/out"
	like "in the report, too" <("$DITRACE" report --group op,line,module --percent-limit 0 "$T/data") \
		' blocks\.2\.layers\.c\.1 +gradient accumulation +gradient accumulation of blocks\.2\.layers\.c\.1\.bias$'
	ok "a column of its own" parameter_columns
	is "calls of it by a condition" "$("$DITRACE" script --format jsonl --when 'parameter == "head.bias"' "$T/data" | wc -l)" \
		"$(grep -c '"parameter":"head.bias"' "$T/events")"
}

both() {
	modules
	each_engine parameters
	others=("${others[1]}" "${others[0]}")
}

others=(shim ptrace)
each_torch forking both
done_testing
