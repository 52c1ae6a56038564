"""Writes elementary.txt: values of elementary functions in 50 digits, as sums of two float64 numbers.

A line is `function x high low`; a number is the 16 hexadecimal digits of its bits. The values come from
exp and ln of the decimal module and from the series below, which share no code with the tested functions.

    python rust/rlox-core/tests/data/elementary.py
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal, getcontext, localcontext
from pathlib import Path

getcontext().prec = 60
getcontext().Emax = 999_999
getcontext().Emin = -999_999
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")


def tanh(x: Decimal) -> Decimal:
    """Return tanh x, computed with as many extra digits as `power - 1` loses near 0."""
    if x == 0:
        return x
    with localcontext() as context:
        context.prec = 60 + max(0, -x.adjusted())
        power = (2 * x).exp()
        return (power - 1) / (power + 1)


def sigmoid(x: Decimal) -> Decimal:
    """Return 1 / (1 + e^-x)."""
    return 1 / (1 + (-x).exp())


def cumulative(x: Decimal) -> Decimal:
    """Return P(Z < x) by the series of Abramowitz and Stegun 7.1.6."""
    term = total = x
    n = 1
    while abs(term) > Decimal("1e-58") * max(abs(total), Decimal("1e-30")):
        n += 2
        term *= x * x / n
        total += term
    return Decimal("0.5") + total * (-x * x / 2).exp() / (2 * PI).sqrt()


def quantile(q: Decimal) -> Decimal:
    """Return the x with P(Z < x) = 1/2 + q, by Newton's method."""
    x = q
    for _ in range(200):
        error = cumulative(x) - Decimal("0.5") - q
        step = error * (2 * PI).sqrt() * (x * x / 2).exp()
        x -= max(min(step, Decimal(1)), Decimal(-1))
        if abs(step) < Decimal("1e-40"):
            break
    return x


def points() -> Iterator[tuple[str, Callable[[Decimal], Decimal], float]]:
    """Yield points of every function: some at its limits, others at random over its range."""
    draw = random.Random(1)
    for scale in (1e-300, 1e-10, 1e-3, 0.1, 0.3, 0.5, 1.0, 3.0, 10.0, 20.0):
        for _ in range(4):
            yield "tanh", tanh, draw.uniform(-scale, scale)
    for scale in (1e-10, 1e-3, 0.3, 1.0, 10.0, 40.0, 700.0):
        for _ in range(6):
            x = draw.uniform(-scale, scale)
            yield "exp", Decimal.exp, x
            yield "sigmoid", sigmoid, x
    for x in (-708.0, -740.0, -744.9, 709.7, 708.5):
        yield "exp", Decimal.exp, x
        yield "sigmoid", sigmoid, x
    for exponent in (-1074, -1030, -500, -53, -10, -2, -1, 0, 1, 5, 60, 900):
        for _ in range(3):
            x = draw.uniform(1.0, 2.0) * 2.0**exponent
            yield "ln", Decimal.ln, x
            yield "ln", Decimal.ln, 1.0 + draw.uniform(-0.5, 1.0) * 2.0 ** min(exponent, 0)
    # Odd multiples of 2^-53, as `fill_normal` draws them: in the centre, in the tails and between them.
    for spread in (1e-9, 0.1, 0.42, 0.4249999, 0.4250001, 0.49, 0.4999, 0.5 - 1e-9, 0.5 - 1e-11):
        for _ in range(4):
            m = int((0.5 + draw.uniform(0.9, 1.0) * spread) * 2**52)
            yield "quantile", quantile, (2 * m + 1) / 2**53 - 0.5
    for m in (0, 1, 100, 60_000, 70_000):
        yield "quantile", quantile, (2 * m + 1) / 2**53 - 0.5


def main() -> None:
    """Write elementary.txt beside this file."""
    lines = []
    for name, function, x in points():
        exact = function(Decimal(x))
        high = float(exact)
        low = float(exact - Decimal(high))
        lines.append(" ".join([name, *(struct.pack(">d", number).hex() for number in (x, high, low))]))
    Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
