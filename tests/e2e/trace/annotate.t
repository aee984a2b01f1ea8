#!/usr/bin/env bash
# annotate: what a file must be like to be shown, which files are, wrong ones; and what is told while a trace is read.
. "$(dirname "$0")/../lib.sh"
[ -x "$DITRACE" ] || { echo "Bail out! $DITRACE is not built" && exit 1; }

A() {
	"$DITRACE" annotate -i "$T/data" "$@"
}

# record SOURCE: the trace of a program whose source is that file
record() {
	"$BUILD/tests/tools/trace_tool" "$T/data" 20 "$1"
}

# code: the columns of lines and source of what annotate shows
code() {
	A "$@" | sed -nE '/^Self/,$ s/^.*  {1,}([0-9]+|\.\.\.)(  |$)/\1 /p'
}

src=$T/some/model.py
mkdir "$T/some"
{
	seq -f '# %g' 3
	tail -n +4 "$here/golden/model.py"
	seq -f '# %g' 30
} >"$src"
ok "a trace" record "$src"
is "lines far from ops are left out" "$(code | grep -c '^\.\.\.')" 2
is "a class around them is shown" "$(code | grep -c '^4 class Model')" 1
is "a line of a method" "$(code | grep '^8 ')" '8         h = self.first(x)'
is "asked for by the end of its path, it is the same" "$(A some/model.py)" "$(A)"
is "and by its path" "$(A "$src")" "$(A)"
is "CSV has the three lines that called ops" "$(A --format csv | wc -l)" 4
is "JSON, too" "$(A --format json | python3 -c 'import json, sys
print(sum(len(f["lines"]) for f in json.load(sys.stdin)["files"]))')" 3
is "one of them above 50 % in no op" "$(A --format csv --percent-limit 50 | wc -l)" 2
is "a condition" "$(A --format csv --when 'op == "aten::relu"' | cut -d, -f2,6)" "$(printf 'line,calls\n9,20')"
error "half a name is no file" 'no line of odel.py' "$DITRACE" annotate -i "$T/data" odel.py
like "the hint has the names" "$T/error" 'hint: .*model.py'
error "a trace as the operand" 'no line of' "$DITRACE" annotate -i "$T/data" "$T/data"
like "the hint says how" "$T/error" "hint: .*-i $T/data"
error "no such trace" nowhere "$DITRACE" annotate -i "$T/nowhere"
error "a percentage that is none" 'not a percentage' "$DITRACE" annotate -i "$T/data" --percent-limit x

touch -d '+1 minute' "$src"
is "written since, it is shown" "$(code | grep -c '^4 class')" 1
is "with that said" "$(A | grep -c '^the file was written since')" 1
sed -i '9 s/self.second/self.third/' "$src"
is "changed, the recorded lines alone are" "$(code | cut -d' ' -f1 | tr '\n' ' ')" "8 9 16 "
is "with the reason" "$(A | grep -c '^only the recorded lines: the file has changed')" 1
is "as they were recorded" "$(code | grep -c 'self.second')" 1
head -n 12 "$here/golden/model.py" >"$src"
is "too short, too" "$(code | cut -d' ' -f1 | tr '\n' ' ')" "8 9 16 "
rm "$src"
mkfifo "$src"
is "a pipe is not opened" "$(A | grep -c '^only the recorded lines: the file cannot be read')" 1
head -c 600 "$T/data" >"$T/cut"
error "a cut trace" cut "$DITRACE" annotate -i "$T/cut"

# on_terminal COMMAND...: what it writes on a terminal
on_terminal() {
	PAGER=cat python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' "$DITRACE" "$@" >"$T/terminal" </dev/null
}

ok "a longer trace" "$BUILD/tests/tools/trace_tool" "$T/long" 2000 "$here/golden/model.py"
for command in "report $T/long" "annotate -i $T/long" "diff $T/long $T/long" "export -o $T/csv $T/long"; do
	on_terminal $command
	like "${command%% *} says how far it has read" "$T/terminal" '^'$'\r\x1b''\[Kditrace: long: [0-9]+ % read'$'\r\x1b''\[K'
done
"$DITRACE" report "$T/long" 2>"$T/error" >&2
unlike "but only on a terminal" "$T/error" '% read'
done_testing
