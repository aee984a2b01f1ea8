"""The shares that a program had by its own account, and those that were seen."""


def said(path, clock):
    """By name, in percent, of the line that begins with the clock: it has names and numbers by turns."""
    with open(path, encoding="utf-8") as f:
        words = next(s for s in f if s.startswith(clock)).split()[1:]
    return dict(zip(words[::2], map(float, words[1::2])))


def near(amounts, wanted, within):
    """Whether the share of each amount is no farther from the wanted one, in percent; prints both."""
    share = {name: 100 * amounts[name] / max(sum(amounts.values()), 1) for name in wanted}
    print("#", *(f"{name} {share[name]:.1f} ({wanted[name]:.1f})" for name in wanted))
    return all(abs(share[name] - wanted[name]) < within for name in wanted)
