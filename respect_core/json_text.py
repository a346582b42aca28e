"""What the readers of JSON files share."""

from __future__ import annotations

import reprlib
from typing import Any, Final

from respect_core.errors import BadInputError

_REPR: Final = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 80
shown: Final = _REPR.repr
"""Shows a wrong value in a message, shortened if it is long or deeply nested."""


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its members, for `json.loads`; JSON's own rule would silently keep the last of two.

    Raises:
        BadInputError: A key comes twice; it is named, and the object if it has a name.
    """
    entry = dict(pairs)
    if len(entry) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in entry if keys.count(key) > 1)
        named = f" (name {shown(entry['name'])})" if "name" in entry else ""
        raise BadInputError(f"the key {shown(twice)} comes twice in one object{named}")
    return entry
