"""Convert decimals of 32 to 256 bits from and to `decimal.Decimal`, exactly."""

from __future__ import annotations

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import unfit

_EXACT = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
"""Never rounds, whatever the decimal context of the thread is."""


def unscaled_ints(words: npt.NDArray[Any]) -> list[int]:
    """Return the DATA slots of a decimal, or any integers, as Python integers; ``w0`` is the lowest word."""
    if words.dtype.names is None:
        return list(words.tolist())
    names = sorted(words.dtype.names)
    if len(names) == 2:
        pairs = zip(words["w1"].tolist(), words["w0"].tolist(), strict=True)
        return [high << 64 | low for high, low in pairs]
    columns = (words[name].tolist() for name in names)
    return [d << 192 | c << 128 | b << 64 | a for a, b, c, d in zip(*columns, strict=True)]


def decimals(words: npt.NDArray[Any], type_: t.Decimal) -> list[Decimal]:
    """Return ``unscaled * 10**-scale`` for each slot, exactly, with the type's scale as its exponent."""
    exponent = Decimal(-type_.scale)
    return [_EXACT.scaleb(Decimal(value), exponent) for value in unscaled_ints(words)]


def unscaled(value: object, type_: t.Decimal) -> int:
    """Return the unscaled integer of a Decimal or int.

    Raises
    ------
    ValueError
        The value has more decimals than the scale or more digits than the precision, or is not finite.
    TypeError
        It is neither a Decimal nor an int.
    """
    if isinstance(value, bool) or not isinstance(value, (Decimal, int, np.integer)):
        raise TypeError(unfit("a Decimal or an int", type_, value))
    number = value if isinstance(value, Decimal) else Decimal(int(value))
    if not number.is_finite():
        raise ValueError(unfit("a finite number", type_, value))
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    if not number:
        return 0
    shift = exponent + type_.scale
    # Checked before a power of ten is computed: an exponent may be of any size.
    if len(digits) + shift > type_.precision:
        raise ValueError(unfit(f"at most {type_.precision} digits", type_, value))
    significant = int("".join(map(str, digits)))
    if shift < 0:
        power: int = 10 ** min(-shift, len(digits) + 1)
        significant, rest = divmod(significant, power)
        if rest:
            raise ValueError(unfit(f"at most {type_.scale} decimals", type_, value))
    else:
        significant *= int(10**shift)
    return -significant if sign else significant
