#!/usr/bin/env bash
# --help, the manual pages and the options are the same.
. "$(dirname "$0")/../lib.sh"
[ -x "$DITRACE" ] || skip_all "$DITRACE is not built"
cd "$top" || exit 1
ok "help and manual pages name the same options, in 79 columns" verify run/help
done_testing
