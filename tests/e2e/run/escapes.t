#!/usr/bin/env bash
# Names that come from the target cannot send escape sequences to the terminal.
. "$(dirname "$0")/../lib.sh"
need_tracing
first_torch
name=$'x\033]0;owned\007\033[2J\r.py'
cp "$W/run/escapes.py" "$T/$name"
printf 'torch.mul(torch.ones(2), 2)  # \033]0;comment\007\n' >>"$T/$name"

clean() {
	! LC_ALL=C grep -nP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80\xae' "$@"
}

"$DITRACE" run --print -o "$T/data" -- "$PY" "$T/$name" >"$T/printed" 2>&1
is "the program ends well" $? 0
ok "its ops were seen" found "$T/printed" aten::mul
ok "run --print is clean" clean "$T/printed"
"$DITRACE" script "$T/data" >"$T/script" 2>&1
ok "script is clean" clean "$T/script"
"$DITRACE" report "$T/data" >"$T/report" 2>&1
ok "report is clean" clean "$T/report"
events
ok "jsonl is clean" clean "$T/events"
ok "jsonl keeps the true strings" verify run/true_strings "$T/events" "$T/$name"
"$DITRACE" export "$T/data" --to csv >"$T/csv" 2>&1
ok "csv is clean" clean <(tr -d '\r' <"$T/csv")
"$DITRACE" report "$T/$name.missing" >"$T/err" 2>&1
ok "errors are clean" clean "$T/err"
"$DITRACE" run -o "$T/data" --ops $'\033[31mx' -- true >"$T/err" 2>&1
ok "so are those about options" clean "$T/err"
done_testing
