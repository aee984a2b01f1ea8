#!/usr/bin/env bash
# The live view of a recorded file in a real terminal: each panel at several sizes, the effect of each key, and the terminal's
# state afterwards.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../tmux.sh"
[ -x "$DITRACE" ] || { echo "Bail out! $DITRACE is not built" && exit 1; }
cd "$here" || exit 1

trace_file() {
	"$BUILD/tests/tools/trace_tool" "$T/data" 200 golden/model.py
}

top() {
	local size=$1
	shift
	terminal "$size" "$@" "$DITRACE" top --speed 0 "$T/data" && shows 'end of file'
}

# golden screens at three sizes, and back
sizes() {
	ok "$1 at 80x24" golden "$1-80x24"
	resize 120x40
	ok "$1 at 120x40" golden "$1-120x40"
	resize 200x50
	ok "$1 at 200x50" golden "$1-200x50"
	resize 80x24
	ok "$1 at 80x24 again" golden "$1-80x24"
}

# pressed DESCRIPTION REGEX KEY...: after the keys the screen has such a line
pressed() {
	local what=$1 regex=$2
	shift 2
	keys "$@"
	ok "$what" shows "$regex"
}

ok "a trace" trace_file
top 80x24
sizes table
keys '?'
sizes help
keys q
ok "q leaves the help" golden table-80x24
keys Enter
sizes detail
keys End
ok "End shows the end of the details" golden detail-end-80x24
keys Escape
ok "Esc leaves the details" golden table-80x24

keys / relu
sizes filter
keys Escape
ok "Esc shows all rows again" golden table-80x24

for group in op line module thread op-and-shapes; do
	keys g
	sizes "by-$group"
done
keys F5 Home
sizes tree
keys Left
ok "Left folds a module" golden tree-folded-80x24
keys Right
ok "Right unfolds it" golden tree-80x24
keys F5
ok "F5 ends the tree, and the rows are those from before" shows '^by op and shapes  '
keys S
resize 120x40
resize 40x24
ok "in 40 columns numbers give way to the op" shows '^b   16.3  AddmmBackward0 '
resize 120x40
ok "and come back" shows '^ditrace top .{100}'
pressed "g: by op and line again" '^by op and line' g

pressed "> sorts by the next column" '^by .* sort Total%' '>'
pressed "F6, too" '^by .* sort Calls/s' F6
pressed "< by the one before" '^by .* sort Total%' '<'
pressed "R the other way round" '^by .* sort Total% reversed' R
pressed "and R back" '^by .* sort Total%  ' R
pressed "G goes to the last row" '^my_library::' G Enter
pressed "^B to the first" '^AddmmBackward0' q C-b Enter
keys q
keys -l $'\e[M %(\e[M#%('
pressed "a click chooses a row" '^aten::linear' Enter
keys q Home
pressed "< to the first" '^by .* sort Self%  ' '<'
pressed "< round to the last" '^by .* sort Where  ' '<'
pressed "< to the shapes" '^by .* sort Shapes  ' '<'
pressed "> round to the first" '^by .* sort Self%  ' '>' '>'
pressed "a click on a column's name sorts by it" '^by .* sort Mean  ' -l $'\e[M B%\e[M#B%'
pressed "and on that of the first back" '^by .* sort Self%  ' -l $'\e[M %%\e[M#%%'
keys Home j j
pressed "T sorts by Total%" '^by .* sort Total%  ' T
pressed "the selection stays on its row" '^aten::addmm' Enter
keys q
pressed "S sorts by Self%" '^by .* sort Self%  ' S
pressed "S again does nothing" '^by .* sort Self%  ' S
pressed "H by shapes" '^by .* sort Shapes  ' H
keys S
pressed "i: the last interval" ' last 2 s ' i
pressed "i again: all" ' cumulative ' i
keys /
pressed "/ filters while one types" 'filter: SE$' SE
ok "only rows with that" shows '^/SE'
keys Enter
pressed "Esc clears the filter" 'filter: none' Escape
keys / nowhere Enter
ok "a filter that nothing passes" shows 'no row has this text'
pressed "Esc clears it" 'filter: none' Escape
pressed "p pauses" ' PAUSED' p
pressed "Space goes on" 'going on' Space
pressed "+ is for files" '^speed 1' +
pressed "and - slower" '^speed 0.5' -
pressed "0: at once" 'as fast as it can be read' 0
for key in a d e s c C f; do
	pressed "$key says that there is no process" 'no process is traced' "$key"
	keys Down
done
pressed "u has nothing to undo" 'nothing to undo' u
pressed "j moves, Enter opens that row" 'Time of a call' Home j Enter
ok "it is the second" shows '^  model.py:9 '
pressed "Enter closes it" '^[?] help .*Enter details' Enter
keys Home
keys -l $'\e[Ma%)'
pressed "the wheel moves by three" '^aten::addmm' Enter
ok "to that row" shows '^  model.py:9 '
keys q
pressed "r counts anew" 'counting anew' r
ok "and nothing is left" shows 'no op seen yet'
pressed "q quits" '^status 0' q
ok "the terminal is as it was" same_settings
ok "and shows what it did" not screen_has 'ditrace top'

LANGUAGE_OF_TERMINAL=C top 80x24
ok "plain ASCII" golden ascii-80x24
keys Enter
ok "details in ASCII" golden ascii-detail-80x24
keys q q
ok "quits" shows '^status 0'

colours() {
	tm capture-pane -pe | grep -qE $'\e\\[[0-9;]*3[13]m'
}
top 80x24
ok "heat has a colour" before_long colours
top 80x24 env NO_COLOR=1
ok "none with NO_COLOR" golden table-80x24
ok "indeed" not colours
top 80x24 env TERM=vt100
ok "none on a vt100" not colours
terminal 80x24 env TERM=dumb "$DITRACE" top "$T/data"
ok "a terminal that cannot place the cursor" shows '^ditrace: cannot show a live view on a terminal of type'
ok "with a hint" shows '^  hint: .*ditrace report'
ok "it ends" shows '^status 1'

# ended SIGNAL STATUS: what happens after a signal
ended() {
	top 80x24 bash -c 'echo $$ >"$0"; exec "$@"' "$T/pid"
	kill -"$1" "$(cat "$T/pid")"
	ok "SIG$1 ends it" shows "^status $2"
	ok "and the terminal is as it was" same_settings
	ok "not on another screen" not screen_has 'ditrace top '
}
ended TERM 143
ended HUP 129
ended INT 130
ended SEGV 139
ended ABRT 134

stopped() {
	next_server
	tm new-session -d -x 80 -y 24 -- env LC_ALL=C.UTF-8 PS1='$ ' bash --norc --noprofile -i
	keys "'$DITRACE' top --speed 0 '$T/data'" Enter
	shows 'end of file' || return 1
	keys C-z
	shows 'Stopped' || return 1
	keys fg Enter
	shows '^b   13.2' && keys q && shows '^\$$'
}
ok "^Z suspends, and fg goes on" stopped

# What devices did stands beside the ops that launched it.
"$BUILD/tests/tools/device_trace" "$T/data"
top 80x24
pressed "D sorts by the time on devices" '^by .* sort Dev%  ' D
ok "devices at 80x24" golden devices-80x24
resize 120x40
ok "devices at 120x40" golden devices-120x40
# device_percent OP: what the report says
device_percent() {
	"$DITRACE" report --group op --format json "$T/data" | python3 -c "import json, sys; print('%.1f' % next(r['device_percent'] for r in json.load(sys.stdin)['rows'] if r['op'] == '$1'))"
}
ok "with the report's figures" shows " $(device_percent aten::addmm)  aten::addmm"
ok "also where the launch is not known" shows ' -  +- +'"$(device_percent '(launch not known)')"'  \(launch not k'
pressed "> goes on to the op" '^by .* sort Op  ' '>'
pressed "< and back" '^by .* sort Dev%  ' '<'
pressed "none by shapes" '^by op and shapes' g g g g g
ok "where there is no such column" not screen_has 'Dev%v'
pressed "D does nothing there" '^by .* sort Self%  ' S D
keys q

# So slow that the end is only reached after a change of the speed.
"$BUILD/tests/tools/trace_tool" "$T/data" 20000 golden/model.py
terminal 80x24 "$DITRACE" top "$T/data"
ok "a file is replayed at its speed" shows ' speed 1x '
pressed "+ makes it faster" ' speed 2x ' +
pressed "0: at once" 'end of file' 0
keys q

differs() {
	[ "$(screen)" != "$1" ]
}
goes_on() {
	before_long differs "$(screen)" && before_long differs "$(screen)"
}
terminal 80x24 "$DITRACE" top --speed 0.01 "$T/data"
ok "slower" shows 'speed 0.01x '
pressed "the press of a button is a click" '^by .* sort Calls/s  ' -l $'\e[M 7%'
keys -l $'\e[M#7%'
ok "the view goes on after its release" goes_on
keys q

# resident STEPS: memory in KiB of a view that has read a trace of so many steps with 111 events each
resident() {
	"$BUILD/tests/tools/trace_tool" "$T/data" "$1" golden/model.py 100
	top 80x24 bash -c 'echo $$ >"$0"; exec "$@"' "$T/pid" || return
	kibibytes=$(awk '/^VmRSS/ { print $2 }' "/proc/$(cat "$T/pid")/status")
}

resident 200 && few=$kibibytes
ok "two million events take no more memory than twenty thousand" resident 20000
ok "but for 4 MiB" [ "$kibibytes" -lt $((few + 4096)) ]
echo "# $few KiB, $kibibytes KiB"
keys q

head -c 30000 "$T/data" >"$T/cut"
terminal 80x24 "$DITRACE" top --speed 0 "$T/cut"
ok "of a cut file, what is there" shows 'file cut'
ok "and where it stops" shows 'cut'
keys q
error "no such file" 'no-such-file|not a terminal' "$DITRACE" top "$T/no-such-file"
terminal 80x24 "$DITRACE" top "$T/no-such-file"
ok "no such file, on a terminal" shows '^ditrace: .*no-such-file'
ok "with status 1" shows '^status 1'
error "no terminal" 'not a terminal' "$DITRACE" top "$T/data"
error "no such speed" '"fast" is no speed' "$DITRACE" top --speed fast "$T/data"
error "too many files" 'one file or process' "$DITRACE" top "$T/data" "$T/data"
done_testing
