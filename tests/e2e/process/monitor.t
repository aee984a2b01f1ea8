#!/usr/bin/env bash
# ditrace monitor: the figures of /proc, a row for each interval, as a table and as CSV.
. "$(dirname "$0")/../lib.sh"
[ -x "$DITRACE" ] || { echo "Bail out! $DITRACE is not built" && exit 1; }
T=$(mktemp -d "$base/t.XXXXXX")

start python3 "$W/process/holds.py" >"$T/work"
wait_line "$T/work" ready

# rows EXPRESSION: whether the Python expression is true for every row of the CSV (numbers, None for empty fields)
rows() {
	verify process/monitor_rows "$T/rows.csv" "$child" "$1"
}

# A machine with devices may have a tool for them on its PATH.
ok "three rows" /usr/bin/env PATH=/nowhere "$DITRACE" monitor --interval 300ms --count 3 -o "$T/rows.csv" "$child"
PATH=/nowhere "$DITRACE" monitor --interval 300ms --count 3 -o "$T/rows.csv" "$child" >"$T/out"
is "and a line of headers, as text" "$(wc -l <"$T/out")" 4
is "and as CSV" "$(wc -l <"$T/rows.csv")" 4
like "the text's columns" "$T/out" '^ +Time +CPU % +RSS +Threads +FDs +Read/s +Written/s +Switches/s$'
like "its rows" "$T/out" '^[0-9:]{8} +[0-9.]+ +[0-9.]+ MiB +12 +[0-9]+ '
ok "its process" rows 'rows[0]["pid"] == pid'
ok "threads" rows 'threads == 12'
ok "files" rows "fds == $(ls "/proc/$child/fd" | wc -l)"
ok "memory" rows '200 << 20 <= rss_bytes <= peak_rss_bytes < 800 << 20'
ok "bytes written" rows '3000000 <= written_bytes < 3100000'
ok "processor time, by its own sum" rows 'cpu_percent >= 0 and cpu_ns > 0'
ok "which grows and agrees with the share" rows \
	'all(abs((b["cpu_ns"] - a["cpu_ns"]) / b["seconds"] / 1e7 - b["cpu_percent"]) < 0.2 + 0.001 * b["cpu_percent"] and
		b["cpu_ns"] >= a["cpu_ns"] for a, b in zip(rows, rows[1:]))'
ok "no device where there is no tool" rows 'device_bytes is None'

mkdir "$T/bin"
fake() {
	printf '#!/bin/sh\n[ "$*" = "--query-compute-apps=pid,used_memory --format=csv,noheader,nounits" ] || exit 1\n%s\n' "$1" >"$T/bin/nvidia-smi"
	chmod 755 "$T/bin/nvidia-smi"
	PATH=$T/bin:$PATH "$DITRACE" monitor --interval 50ms --count 2 -o "$T/rows.csv" "$child" >"$T/out"
}
fake "printf '1, 77\n$child, 1024\n$child, 512\n'"
ok "memory on two devices" rows 'device_bytes == 1536 << 20'
like "as text" "$T/out" ' 1\.5 GiB$'
fake "printf '1, 77\n2, [N/A]\n'"
ok "on none" rows 'device_bytes == 0'
fake "printf '$child, [N/A]\n'"
ok "that the tool does not know" rows 'device_bytes is None'
like "as text" "$T/out" ' \?$'
fake "echo 'No devices were found'"
ok "a tool that says something else" rows 'device_bytes is None'
fake "printf '$child, 77\n'; exit 3"
ok "a tool that fails" rows 'device_bytes is None'
rm "$T/bin/nvidia-smi"

# other TOOL ARGUMENTS: make a tool that prints this function's standard input
other() {
	cat >"$T/table"
	printf '#!/bin/sh\n[ "$*" = "%s" ] && cat "%s"\n' "$2" "$T/table" >"$T/bin/$1"
	chmod 755 "$T/bin/$1"
	PATH=$T/bin:$PATH "$DITRACE" monitor --interval 50ms --count 2 -o "$T/rows.csv" "$child" >"$T/out"
	rm "$T/bin/$1"
}
other npu-smi info <<-EOF
	+---------------------------------------------------------------------------------------------+
	| npu-smi 23.0.0                   Version: 23.0.0                                            |
	+===========================+===============+=================================================+
	| 0     910B3               | OK            | 92.1        36                0    / 0          |
	| 0                         | 0000:C1:00.0  | 0           0    / 0          3372 / 65536      |
	+---------------------------+---------------+-------------------------------------------------+
	| NPU     Chip              | Process id    | Process name             | Process memory(MB)   |
	+===========================+===============+=================================================+
	| 0       0                 | 1             | python                   | 77                   |
	+===========================+===============+=================================================+
	| 0       0                 | $child | python                   | 1024                 |
	| 1       0                 | $child | python 3                 | 512                  |
	+===========================+===============+=================================================+
EOF
ok "memory by npu-smi" rows 'device_bytes == 1536 << 20'
other npu-smi info <<-EOF
	| NPU     Chip              | Process id    | Process name             | Process memory(MB)   |
	+===========================+===============+=================================================+
	| No running processes found in NPU 0                                                         |
	+===========================+===============+=================================================+
EOF
ok "none by npu-smi" rows 'device_bytes == 0'
other npu-smi info <<-EOF
	| NPU     Chip              | Process id    | Process name             | Process memory(MB)   |
	| 0       0                 | $child | python                   | NA                   |
EOF
ok "npu-smi that says something else" rows 'device_bytes is None'
other cnmon "" <<-EOF
	+------------------------------------------------------------------------------+
	| Processes:                                                                   |
	|  Card  VF  PID    Command Line                             MLU Memory Usage  |
	|==============================================================================|
	|  0     /   1      python 12 MiB                                      77 MiB  |
	|  0     /   $child python train.py                                    512 MiB |
	+------------------------------------------------------------------------------+
EOF
ok "memory by cnmon" rows 'device_bytes == 512 << 20'

start_as watcher "$DITRACE" monitor --interval 50ms "$child" >"$T/out" 2>"$T/err"
wait_line "$T/out" '^[0-9:]{8} '
kill -INT $watcher
finish $watcher
is "Ctrl-C ends it well" $status 0
: >"$T/out"
start_as watcher "$DITRACE" monitor --interval 50ms "$child" >"$T/out" 2>"$T/err"
wait_line "$T/out" '^[0-9:]{8} '
kill -9 "$child"
wait "$child" 2>/dev/null
finish $watcher
is "the end of the process ends it well" $status 0
like "and it says so" "$T/err" "process $child has ended"

# last_row_is OPS: whether so many ops have been counted
last_row_is() {
	python3 -c 'import csv, sys; *_, last = csv.DictReader(open(sys.argv[1])); sys.exit(last["ops"] != sys.argv[2])' "$T/rows.csv" "$1"
}

# 20,000 operators between two rows that are far apart, and no others
counted() {
	rm -f "$T/go"
	start "$PY" process/counted.py "$T/go" >"$T/work"
	wait_line "$T/work" ready
	local watcher
	PATH=/nowhere start_as watcher "$DITRACE" monitor --interval 100ms -o "$T/rows.csv" "$child" >"$T/out" 2>"$T/err"
	wait_line "$T/out" '^[0-9:]{8} '
	touch "$T/go"
	wait_line "$T/work" done
	before_long last_row_is 20000
	kill -INT $watcher
	finish $watcher
	ok "operators are counted" rows 'rows[0]["ops"] == 0 and rows[-1]["ops"] == 20000'
	like "and their rate shown" "$T/out" 'Switches/s +Ops/s$'
	PATH=/nowhere "$DITRACE" monitor --interval 50ms --for 120ms --no-ops -o "$T/rows.csv" -p "$child" >"$T/out"
	ok "or not" rows 'ops is None'
	PATH=/nowhere /usr/bin/setpriv --bounding-set=-bpf,-perfmon,-sys_admin "$DITRACE" monitor --interval 50ms --count 2 \
		-o "$T/rows.csv" "$child" >"$T/out" 2>"$T/err"
	ok "and where that is not permitted" rows 'ops is None'
	like "it is said" "$T/err" 'no rate of operators: not allowed'
	kill -9 "$child"
	wait "$child" 2>/dev/null
}
if [ "$(id -u)" = 0 ]; then
	each_torch counted
else
	skip "counting operators needs root" 5
fi

error "no such process" 'no such process' "$DITRACE" monitor 4194303
error "no process ID" 'is not a process ID' "$DITRACE" monitor abc
start sleep 36000
error "a file that cannot be written" 'cannot write /nowhere/x' "$DITRACE" monitor -o /nowhere/x "$child"
error "too short an interval" 'interval' "$DITRACE" monitor --interval 1ms "$child"
done_testing
