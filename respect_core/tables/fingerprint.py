"""Fingerprints: a digest of everything that determines a result, so that unchanged work is recognised."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def fingerprint(**facts: Any) -> str:
    """Return 16 hexadecimal digits that change when any of the JSON-like facts does.

    >>> fingerprint(seed=0, family="local") == fingerprint(family="local", seed=0)
    True
    """
    text = json.dumps(facts, sort_keys=True, default=list)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
