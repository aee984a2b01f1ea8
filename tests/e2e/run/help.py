"""help.py: --help of each command fits 79 columns, and its manual page has each of its options and no other, in the synopsis and
described; ditrace --help has all commands."""
import glob
import os
import re
import subprocess


def output(*arguments):
    return subprocess.run([os.environ["DITRACE"], *arguments], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


def named(text, letters):
    """The long options of a part of a manual page, those given by a letter too."""
    found = set(re.findall(r"\\-([\w-]+)", text))
    return found | {long for letter, long in letters if re.search(rf"(Fl|,) {letter}\b", text)}


top = output("--help")
pages = sorted(glob.glob("docs/man/ditrace-*.1"))
assert len(pages) > 10, pages
for page in pages:
    command = re.search(r"ditrace-(\w+)\.1", page).group(1)
    text = output(command, "--help")
    assert max(map(len, (top + text).splitlines())) <= 79, text
    assert re.search(rf"^  {command} ", top, re.M), command
    letters = re.findall(r"^ +-(\w), --([\w-]+)", text, re.M)
    options = set(re.findall(r"^ +(?:-\w, )?--([\w-]+)", text, re.M)) - {"help"}
    with open(page, encoding="utf-8") as f:
        manual = f.read()
    synopsis = manual.split(".Sh SYNOPSIS")[1].split(".Sh DESCRIPTION")[0]
    described = "\n".join(line for line in manual.splitlines() if line.startswith(".It Fl"))
    for part in synopsis, described:
        assert named(part, letters) == options, (page, named(part, letters) ^ options)
    assert not re.search(r"^\.It (Op|Fl|Ar|Cm)$", manual, re.M), page
assert output("--version").startswith("ditrace ")
