#!/usr/bin/env python3
"""compare_top.py SCREEN REPORT: do the rows of the live view agree with the table of ditrace report?

Both show Self, Total, Mean, P99, the op and the line in the same words. Prints how many rows agree."""

import re
import sys

TIME = r"([\d.]+ (?:ns|us|ms|s))"
WHERE = r"  (\S+) .*?(\S+\.py:\d+|\(no Python frame\)|\(forward op not known\)|\(gradient accumulation\))"  # behind the op
SHOWN = re.compile(r"^(b| ) +([\d.]+) +([\d.]+) +[\d,.]+ +" + TIME + " +" + TIME + WHERE)
REPORTED = re.compile(r"^ *([\d.]+)% +([\d.]+)% +[\d,]+ +" + TIME + " +" + TIME + " +" + TIME + WHERE)


def main():
    wanted, backward = set(), " "
    for line in open(sys.argv[2]):
        if line.startswith("backward"):
            backward = "b"
        m = REPORTED.match(line)
        if m:
            self_, total, mean, p99, _, op, where = m.groups()
            wanted.add((backward, self_, total, mean, p99, op, where))
    agree = 0
    for line in open(sys.argv[1]):
        m = SHOWN.match(line)
        if not m:
            continue
        row = tuple(m.groups())
        op = row[5].rstrip("…")  # if truncated, the part that is shown
        if not any(row[:5] + row[6:] == w[:5] + w[6:] and (w[5] == op or row[5] != op and w[5].startswith(op)) for w in wanted):
            sys.exit(f"{row} is not in the report, which has {[w for w in wanted if w[5:] == row[5:]]}")
        agree += 1
    print(agree, "rows agree")
    sys.exit(agree < 20)


if __name__ == "__main__":
    main()
