"""Damage to the bytes of a file."""

from __future__ import annotations

import random

_WORDS = tuple(word.to_bytes(4, "little") for word in (2**32 - 1, 2**31, 2**31 - 1, 2**30, 0, 1, 4))


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Flip bits, cut the end, or write a random block or a telling word somewhere."""
    out = bytearray(data)
    at = rng.randrange(len(out))
    match rng.randrange(4):
        case 0:
            for _ in range(rng.randint(1, 8)):
                out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
        case 1:
            del out[at:]
        case 2:
            block = rng.randbytes(min(rng.randint(1, 64), len(out) - at))
            out[at : at + len(block)] = block
        case _:
            start = min(at // 4 * 4, len(out) - 4)
            out[start : start + 4] = rng.choice((*_WORDS, rng.randrange(len(out)).to_bytes(4, "little")))
    return bytes(out)
