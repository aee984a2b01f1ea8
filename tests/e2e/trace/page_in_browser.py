"""page_in_browser.py PAGE OP: whether a browser shows the page that export --to html has made: without an error and without asking
for anything, the search finds the op, a click zooms, each part draws something, dark and light."""

import os
import sys

import browser

page, op = sys.argv[1:]
if not browser.path:
    print("# skip: no chromium")
    sys.exit(77)
b = browser.Browser()


def settled(script):
    """What it is, once it is true: the page moves for a moment."""
    return b.says(
        f"""new Promise((done, failed) => {{
            const since = Date.now();
            (function look() {{
                const r = {script};
                if (r) done(r);
                else if (Date.now() - since > 60000) failed("in vain: " + {script!r});
                else setTimeout(look, 20);
            }})();
        }})"""
    )


def click(x, y):
    for what in "mousePressed", "mouseReleased":
        b.call("Input.dispatchMouseEvent", type=what, x=x, y=y, button="left", clickCount=1)


try:
    b.dark(False)
    b.open("file://" + os.path.abspath(page))
    assert b.says("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    frames = b.says("document.querySelectorAll('#chart rect').length")
    assert frames > 10, frames

    b.says(f"byId('search').value = {op!r}; byId('search').dispatchEvent(new Event('input'))")
    assert b.says("byId('found').textContent").split()[0] != "0"
    marked = settled("[...document.querySelectorAll('#chart g')].filter(g => g.__data__.highlight).map(g => g.__data__.data.name)")
    assert marked and all(op in name for name in marked), marked
    assert b.says("[...document.querySelectorAll('#chart g')].every(g => !g.__data__.highlight || g.querySelector('rect').getAttribute('fill') === color('found'))")

    wide = "[...document.querySelectorAll('#chart g')].find(g => g.__data__.data.kind > 0)"
    x, y, was = b.says(f"(r => [r.left + r.width / 2, r.top + 5, r.width])({wide}.querySelector('rect').getBoundingClientRect())")
    name = b.says(f"{wide}.__data__.data.name")
    click(x, y)
    now = settled(f"(r => r.width > byId('chart').clientWidth * 0.99 && r.width)({wide}.querySelector('rect').getBoundingClientRect())")
    assert now > was and b.says("byId('frame').textContent").startswith(name)
    b.says("byId('reset').click()")
    settled(f"Math.abs({wide}.querySelector('rect').getBoundingClientRect().width - {was}) < 1")

    for tab, drawn in ("ops", "#table tbody tr"), ("modules", "#tree tbody tr"), ("source", "#lines td.code"):
        b.says(f"location.hash = {tab!r}")
        assert settled(f"byId('part-' + {tab!r}).classList.contains('on') && document.querySelectorAll({drawn!r}).length"), tab
    gaps = "filesOf().flatMap(f => [...f.lines.values()]).reduce((sum, l) => sum + l.none, 0)"
    assert b.says(f"(was => was > 0 && (data.in_no_op.rows.push({{...data.in_no_op.rows.find(r => r.file), worker: true}}), {gaps} === was))({gaps})")
    names = b.says("[...shortNames(['/a/x.py', '/b/x.py', '/a/x.py', '/b/y.py', 'x.py']).values()]")
    assert names == ["a/x.py", "b/x.py", "y.py", "x.py"], names
    peaks = b.says("highestPeaks([['cpu', 3], ['cpu', 9], ['cuda:0', 0], ['cpu', 5]].map(([device, peak_bytes]) => ({device, peak_bytes})))")
    assert peaks == [{"device": "cpu", "peak_bytes": 9, "processes": 3}], peaks
    b.says("location.hash = 'timeline'")
    assert settled("byId('lanes').height > 50 && new Set(byId('lanes').getContext('2d').getImageData(0, 0, byId('lanes').width, byId('lanes').height).data).size") > 5
    first = b.says("bars[0][0]")
    x, y = b.says("(r => [r.left + 1, r.bottom - 3])(byId('bars').getBoundingClientRect())")
    click(x, y)
    assert settled(f"chosenStep === {first} && byId('step').textContent").startswith(f"step {first}: ")
    b.says("byId('theme').click()")
    assert b.says("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert not b.problems, b.problems
    assert all(r.startswith("file:") for r in b.requests), b.requests
finally:
    b.close()
