"""The TFLite interpreter of this host, whichever of the packages that bring one is installed."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

from hardware_runners.errors import InvalidPlanError, RuntimeMissingError

RUNTIMES: Dict[str, str] = {
    "ai-edge-litert": "ai_edge_litert.interpreter",
    "tflite-runtime": "tflite_runtime.interpreter",
    "tensorflow": "tensorflow.lite",
}
"""Module with the interpreter by package, the ones to prefer first."""

KERNELS = "builtin kernels, no delegate, one thread a stage"
"""How segments run on the host's processor: a delegate takes over whole groups of ops, which a cut model has others
of, and may round otherwise."""


@dataclass(frozen=True)
class Runtime:
    """An interpreter that can be imported."""

    name: str
    """Key of `RUNTIMES`."""
    version: str
    interpreter: Callable[..., Any]
    load_delegate: Callable[..., Any]
    resolver: Optional[Any]
    """The op resolver that runs builtin kernels without a default delegate; None in versions that have no choice."""

    def on_cpu(self, path: str) -> Any:
        """Return an interpreter of a file for the host's processor, its tensors not allocated yet."""
        options = {} if self.resolver is None else {"experimental_op_resolver_type": self.resolver}
        return self.interpreter(model_path=path, num_threads=1, **options)

    def on_device(self, path: str, delegate: Any) -> Any:
        """Return an interpreter of a compiled file for the device of a delegate, its tensors not allocated yet."""
        return self.interpreter(model_path=path, num_threads=1, experimental_delegates=[delegate])


def check_runtime(name: Optional[str]) -> None:
    """Raise `InvalidPlanError` for a package that brings no interpreter; None stands for any."""
    if name is not None and name not in RUNTIMES:
        raise InvalidPlanError(f"unknown interpreter {name!r}: choose from {', '.join(RUNTIMES)}")


def find_runtime(names: Sequence[str] = tuple(RUNTIMES)) -> Runtime:
    """Import the first of these packages that is there.

    Raises:
        RuntimeMissingError: None can be imported; the message says why of each, and which to install.
    """
    why = []
    for name in names:
        try:
            module = import_module(RUNTIMES[name])
            return _runtime(name, module)
        except ImportError as error:
            why.append(f"{name}: {error}")
        except AttributeError as error:  # what an interpreter built for another NumPy, or half a package, looks like
            why.append(f"{name}: it is broken ({error})")
    raise RuntimeMissingError(
        f"no TFLite interpreter can be imported here ({'; '.join(why)}): pip install ai-edge-litert "
        "(Python 3.10 and later) or tflite-runtime with numpy<2 (Python 3.9)"
    )


def _runtime(name: str, module: Any) -> Runtime:
    experimental = getattr(module, "experimental", None)
    load_delegate = getattr(module, "load_delegate", None) or experimental.load_delegate  # type: ignore[union-attr]
    resolvers = getattr(module, "OpResolverType", None) or getattr(experimental, "OpResolverType", None)
    return Runtime(
        name=name,
        version=package_version(name) or str(getattr(module, "__version__", "unknown")),
        interpreter=module.Interpreter,
        load_delegate=load_delegate,
        resolver=getattr(resolvers, "BUILTIN_WITHOUT_DEFAULT_DELEGATES", None),
    )


def package_version(name: str) -> Optional[str]:
    """Return the version of an installed package, None where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def as_numbers(version: str) -> Tuple[int, ...]:
    """Return the leading numbers of a version, e.g. (2, 5, 0) of `2.5.0.post1`."""
    found = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        found.append(int(digits))
        if digits != part:
            break
    return tuple(found)


def processor_name() -> str:
    """Return the name of the host's processor."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", text, re.MULTILINE)
    return " ".join((found.group(1) if found else platform.processor() or platform.machine()).split())
