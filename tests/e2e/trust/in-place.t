#!/usr/bin/env bash
# -o names what is no regular file: it is written as it is, unless it is another user's. Who reads a file that is replaced reads on.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../theirs.sh"
need_tracing
first_torch

specials() {
	theirs
	"$DITRACE" run -o /dev/null -- true 2>"$T/err"
	is "run to /dev/null" "$(stat -c %F /dev/null)" "character special file"
	unlike "goes well" "$T/err" "cannot"
	"$DITRACE" run -o /dev/stdout -- true 2>"$T/err" | head -c 8 >"$T/piped"
	ok "to a pipe" cmp "$T/piped" <("$DITRACE" run -o "$T/x" -- true 2>/dev/null; head -c 8 "$T/x")
	"$DITRACE" run -o "$T/data" -- "$PY" "${add[@]}" 2>"$T/err"
	"$DITRACE" export "$T/data" >"$T/want"
	"$DITRACE" export -o /dev/stdout "$T/data" >"$T/got"
	ok "export to /dev/stdout, a file" cmp "$T/got" "$T/want"
	"$DITRACE" export -o /dev/fd/7 "$T/data" 7>&1 | cat >"$T/got"
	ok "to /dev/fd/7, a pipe" cmp "$T/got" "$T/want"
	mkfifo "$T/fifo"
	start cat "$T/fifo" >"$T/got"
	"$DITRACE" export -o "$T/fifo" "$T/data"
	finish "$child"
	ok "to a FIFO" cmp "$T/got" "$T/want"
	start cat "$T/fifo" >"$T/got"
	exec 8>"$T/fifo"
	"$DITRACE" run -o "$T/fifo" -- "$PY" "${add[@]}" 2>"$T/err"
	exec 8>&-
	finish "$child"
	ok "run to a FIFO" "$DITRACE" report "$T/got"
	as_user mkfifo -m 666 ditrace.data
	start as_user cat ditrace.data >"$T/got"
	exec 8<>ditrace.data
	"$DITRACE" run -- true 2>"$T/err"
	exec 8>&-
	finish "$child"
	is "but not to another user's" "$(stat -c '%F %a' ditrace.data) $(wc -c <"$T/got")" "regular file 600 0"
	cd "$W" || exit 1
}

# More than a pipe holds: when the second run replaces the file, the reader has not read all of the first.
replaced() {
	trace -- "$PY" train.py --steps 60
	"$DITRACE" script --format jsonl "$T/data" >"$T/want"
	"$DITRACE" script --follow --format jsonl "$T/data" | {
		head -c 1 >"$T/got"
		"$DITRACE" run -o "$T/data" -- "$PY" "${add[@]}" 2>"$T/err"
		cat >>"$T/got"
	}
	ok "a reader of the trace that is replaced reads on" cmp "$T/got" "$T/want"
	ok "the new one is there" [ "$("$DITRACE" script --format jsonl "$T/data" | wc -l)" -lt "$(wc -l <"$T/want")" ]
}

specials
replaced
done_testing
