#!/usr/bin/env bash
# The export formats of samples: they, script and report agree sample by sample.
. "$(dirname "$0")/../lib.sh"
[ -x "$DITRACE" ] || { echo "Bail out! $DITRACE is not built" && exit 1; }

# all_forms [OPTIONS]: for $T/data
all_forms() {
	local to
	for to in csv chrome folded speedscope sqlite; do
		"$DITRACE" export --to "$to" -o "$T/${to/sqlite/db}" "$@" "$T/data" || return 1
	done
	"$DITRACE" report --format json --samples "$T/data" >"$T/report.json" && events
}

count_of() {
	python3 -c 'import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchone())' "$T/db" "$1"
}

# weight_of_page: of all nodes and of what is folded into them, or into none
weight_of_page() {
	sed -nE 's/^"(self|folded)_ns":\[(.*)\][},]*$/\2/p; s/^"samples":.*"outside_ns":([0-9]+).*/\1/p' "$T/page" | tr , '\n' |
		awk '{ n += $1 } END { printf "%.0f", n }'
}

# The formats are independent of PyTorch.
samples() {
	of_first_torch || { skip "samples of another torch were exported: make test-long" 11; return; }
	ok "record" "$DITRACE" record -F 499 -o "$T/data" -- "$PY" sample/shares.py 1
	ok "export in all forms" all_forms
	ok "all say the same, and are well formed" python3 "$here/compare_samples.py" "$T"
	speedscope_schema "$T/speedscope"
	[ "$TORCH" != "$first" ] || ok "report sorts by each key, and groups by each and any two" python3 "$here/compare_sorts.py" "$T/data" --samples
	error "perfetto has none" "no samples" "$DITRACE" export --to perfetto "$T/data"
	ok "html" "$DITRACE" export --to html -o "$T/page" "$T/data"
	is "has their whole weight" "$(weight_of_page)" "$(awk '{ n += $NF } END { printf "%.0f", n }' "$T/folded")"
	ok "a condition" "$DITRACE" export --to sqlite -o "$T/db" --when 'op == "aten::mm"' "$T/data"
	is "and only such samples" "$(count_of "SELECT count(*) FROM samples")" "$(grep -c '"op":"aten::mm"' "$T/events")"
	ok "a time" "$DITRACE" export --to csv -o "$T/csv" --time 0s-1ns "$T/data"
	is "without samples leaves the names of the columns" "$(wc -l <"$T/csv")" 1
}

both() {
	[ "$(id -u)" = 0 ] || { skip "tracing with eBPF needs root" 5; return; }
	trace --sample=199 -- "$PY" sample/shares.py 1
	ok "of a file with both, the samples alone" all_forms --samples
	ok "say the same" python3 "$here/compare_samples.py" "$T"
	"$DITRACE" export --to chrome -o "$T/chrome" "$T/data"
	ok "a file with both as one for Perfetto" python3 "$here/chrome_trace.py" "$T/chrome"
	is "has all calls and all samples" "$(grep -c '"ph":"X".*"args":{"id"' "$T/chrome") $(grep -c '"ProfileChunk"' "$T/chrome")" \
		"$(grep -vc '"sample":true' "$T/events") $(grep -c '"sample":true' "$T/events")"
	"$DITRACE" export --to sqlite -o "$T/db" "$T/data"
	is "so has a database" "$(count_of "SELECT (SELECT count(*) FROM calls), (SELECT count(*) FROM sampled)")" \
		"$(grep -vc '"sample":true' "$T/events") $(grep -c '"sample":true' "$T/events")"
}
# The names of native functions, and the build ids of their files, are in the trace: it is complete without the library.
gone() {
	local id
	command -v "${CC:=cc}" >/dev/null && command -v readelf >/dev/null || { skip "no compiler here" 4; return; }
	echo 'void spin_here(long n) { for (volatile long i = 0; i < n; i++); }' >"$T/spin.c"
	ok "a library" "$CC" -O1 -g0 -shared -fPIC -Wl,--build-id -o "$T/libspin.so" "$T/spin.c"
	id=$(readelf -n "$T/libspin.so" | awk '/Build ID/ { print $NF }')
	ok "record what runs in it" "$DITRACE" record -F 499 -o "$T/data" -- "$PY" -c 'import ctypes, sys
ctypes.CDLL(sys.argv[1]).spin_here(ctypes.c_long(400000000))' "$T/libspin.so"
	rm "$T/libspin.so"
	"$DITRACE" report --group symbol "$T/data" >"$T/table"
	like "a function of a library that is gone" "$T/table" ' spin_here .*libspin.so'
	"$DITRACE" export --to sqlite -o "$T/db" "$T/data"
	is "and its build id" "$(count_of "SELECT build_id FROM builds WHERE file LIKE '%/libspin.so'")" "$id"
}

first=$("$here/pythons" | awk '$2 != "-" { print $2; exit }') # sorting is independent of PyTorch
each_torch samples
first_torch
both # in one file: its format is independent of PyTorch
gone
done_testing
