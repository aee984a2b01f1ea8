"""The shares of time that a program reports, and the observed ones."""


def said(path, clock):
    """Shares by name, in percent, from the line that begins with the clock and alternates names and numbers."""
    with open(path, encoding="utf-8") as f:
        words = next(s for s in f if s.startswith(clock)).split()[1:]
    return dict(zip(words[::2], map(float, words[1::2])))


def near(amounts, wanted, within):
    """Whether every share of the amounts is less than `within` percentage points off the wanted one; prints both."""
    share = {name: 100 * amounts[name] / max(sum(amounts.values()), 1) for name in wanted}
    print("#", *(f"{name} {share[name]:.1f} ({wanted[name]:.1f})" for name in wanted))
    return all(abs(share[name] - wanted[name]) < within for name in wanted)
