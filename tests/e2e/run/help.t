#!/usr/bin/env bash
# --help, the manual pages and the options are the same.
. "$(dirname "$0")/../lib.sh"
[ -x "$DITRACE" ] || skip_all "$DITRACE is not built"
cd "$top" || exit 1
ok "help and manual pages name the same options, in 79 columns" verify run/help
is "ditrace help COMMAND is its --help" "$("$DITRACE" help report)" "$("$DITRACE" report --help)"
error "help of no command" 'no command "reprot"' "$DITRACE" help reprot
done_testing
