#!/usr/bin/env bash
# Files that earlier versions of ditrace have written are read as ever: older/NAME.data gives the report older/NAME.csv, all
# events and all values. GOLDEN=write writes the reports.
. "$(dirname "$0")/../lib.sh"
[ -x "$DITRACE" ] || { echo "Bail out! $DITRACE is not built" && exit 1; }

# values FILE: how many lines of its events, and words of these, script prints
values() {
	"$DITRACE" script "$1" | wc -lw | tr -s ' '
}

for file in "$here"/trace/older/*.data; do
	label="$(basename "$file"): "
	golden=${file%.data}.csv
	"$DITRACE" report --format csv "$file" >"$base/csv" 2>"$base/err"
	is "is read" $? 0
	is "without a word" "$(cat "$base/err")" ""
	values "$file" >>"$base/csv"
	[ "${GOLDEN:-}" != write ] || cp "$base/csv" "$golden"
	ok "and has what it had" cmp "$golden" "$base/csv"
done
done_testing
