"""Run in a process of its own: use the registered policy as somebody without this project would.

Arguments: the tracking address, the checkout's folder, and a folder with `requests.json` (rows to schedule); the answer
goes to standard output as JSON. Modules of the checkout, and of every distribution that the model's own requirements do
not bring, cannot be imported here.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement

ADDRESS, CHECKOUT, FOLDER = sys.argv[1], Path(sys.argv[2]).resolve(), Path(sys.argv[3])


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def closure(names):
    """Distributions that installing these brings along."""
    found, todo = set(), [(plain(name), frozenset()) for name in names]
    seen = set()
    while todo:
        name, extras = todo.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            wanted = requires(name) or []
        except PackageNotFoundError:
            continue
        found.add(name)
        for line in wanted:
            need = Requirement(line)
            if need.marker is None or any(need.marker.evaluate({"extra": e}) for e in extras | {""}):
                todo.append((plain(need.name), frozenset(need.extras)))
    return found


class Blocker:
    """Refuses modules that only distributions outside the closure provide."""

    def __init__(self, allowed):
        self.blocked = {
            module
            for module, owners in packages_distributions().items()
            if not {plain(owner) for owner in owners} & allowed
        }

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.blocked:
            raise ModuleNotFoundError(f"{name} is not among the model's requirements", name=name)


def shut_the_checkout_out():
    def outside(entry):
        return "site-packages" in entry or (entry and not Path(entry).resolve().is_relative_to(CHECKOUT))

    sys.path[:] = [entry for entry in sys.path if outside(entry)]
    sys.meta_path[:] = [
        finder
        for finder in sys.meta_path
        if "editable"
        not in f"{getattr(finder, '__name__', '')}{type(finder).__name__}{type(finder).__module__}".lower()
    ]
    for name in [name for name in sys.modules if name.partition(".")[0] in ("respect_core", "tasks")]:
        del sys.modules[name]
    for name in ("respect_core", "tasks", "flows", "hardware_runners"):
        assert importlib.util.find_spec(name) is None, f"{name} can still be imported"


def requirements():
    import sqlite3

    path = ADDRESS.removeprefix("sqlite:///")
    with sqlite3.connect(path) as base:
        (where,) = base.execute("select storage_location from model_versions order by version desc limit 1").fetchone()
    lines = (Path(where.removeprefix("file://")) / "requirements.txt").read_text().split()
    return [re.split(r"[=<>~!]", line)[0] for line in lines]


def main():
    needed = requirements()
    shut_the_checkout_out()
    blocker = Blocker(closure(needed))
    blocker.blocked -= {"respect_core"}  # it can come from the model's code only: the checkout is shut out above
    sys.meta_path.insert(0, blocker)
    import mlflow
    import pandas as pd

    mlflow.set_tracking_uri(ADDRESS)
    model = mlflow.pyfunc.load_model("models:/respect-policy@champion")
    answers = []
    for request in json.loads((FOLDER / "requests.json").read_text()):
        try:
            answers.append(model.predict(pd.DataFrame(request)).to_dict(orient="list"))
        except Exception as error:
            answers.append({"error": str(error), "type": type(error).__name__})
    import respect_core

    code = Path(respect_core.__file__)
    facts = {
        "requirements": needed,
        "core": str(code),
        "torch": "torch" in sys.modules,
        "tasks": "tasks" in sys.modules,
        "signature": model.metadata.signature.to_dict(),
    }
    print(json.dumps({"answers": answers, "facts": facts}))


main()
