"""help.py: --help of each command fits 79 columns, and its manual page has each of its options and no other, in the synopsis and
described, by the same letter, with a value or without, of the same words; ditrace --help and ditrace(1) have all commands."""
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


def described_options(manual):
    """Of each option of a manual page's .It lines, by its long name: its letter, whether it takes a value, of which words."""
    options = {}
    for line in re.findall(r"^\.It Fl (.*)", manual, re.M):
        letter = None
        for part in line.split(" , Fl "):
            name, *value = part.split(" ")
            if not name.startswith("\\-"):
                letter = name
                continue
            found = options.setdefault(name[2:], [letter, bool(value), set()])
            found[2].update(re.findall(r"[\w-]+", " ".join(value).partition("Cm ")[2]))
            letter = None
    return options


def words_of(command, option):
    """The words that complete its value."""
    lines = output("--complete", command, f"--{option}=").splitlines()
    return {line.split("\t")[0].partition("=")[2] for line in lines if not line.startswith(":")}


top = output("--help")
with open("docs/man/ditrace.1", encoding="utf-8") as f:
    main = f.read()
pages = sorted(glob.glob("docs/man/ditrace-*.1"))
assert len(pages) > 10, pages
for page in pages:
    command = re.search(r"ditrace-(\w+)\.1", page).group(1)
    text = output(command, "--help")
    assert max(map(len, (top + text).splitlines())) <= 79, text
    assert re.search(rf"^  {command} ", top, re.M), command
    assert f".It Ic {command}\n" in main, command
    letters = re.findall(r"^ +-(\w), --([\w-]+)", text, re.M)
    options = set(re.findall(r"^ +(?:-\w, )?--([\w-]+)", text, re.M)) - {"help"}
    with open(page, encoding="utf-8") as f:
        manual = f.read()
    synopsis = manual.split(".Sh SYNOPSIS")[1].split(".Sh DESCRIPTION")[0]
    described = "\n".join(line for line in manual.splitlines() if line.startswith(".It Fl"))
    for part in synopsis, described:
        assert named(part, letters) == options, (page, named(part, letters) ^ options)
    table = re.findall(r"^ +(?:-(\w), )?--([\w-]+)(\[=\S+| \S+)?", text, re.M)
    manuals = described_options(manual)
    for letter, name, value in table:
        if name == "help":
            continue
        assert manuals[name][:2] == [letter or None, bool(value)], (page, name, manuals[name])
        assert manuals[name][2] in (set(), words_of(command, name)), (page, name, manuals[name], words_of(command, name))
    assert not re.search(r"^\.It (Op|Fl|Ar|Cm)$", manual, re.M), page
assert output("--version").startswith("ditrace ")
