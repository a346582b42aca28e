"""Whether libedgetpu, the TFLite interpreter and pycoral of a host fit together."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Optional, Tuple

from hardware_runners.devices.runtime import as_numbers, package_version
from hardware_runners.host.findings import Finding

PACKAGES = ("ai-edge-litert", "tflite-runtime", "tensorflow", "pycoral")

STOCK_GENERATION = (2, 5)
"""TensorFlow of which Coral's own libedgetpu 16.0 is made."""

LAST_WITH_STOCK = (2, 11)
"""Last TensorFlow Lite that works with it: later ones end in a segmentation fault (google-coral/edgetpu#812)."""

LITERT_GENERATION = (2, 16)
"""libedgetpu for ai-edge-litert is built of this TensorFlow or a later one."""

_LIBRARY_FOLDERS = ("usr/lib/*", "usr/lib", "usr/local/lib", "lib/*", "lib")
_GENERATION = re.compile(r"tf-?(\d+)\.(\d+)", re.IGNORECASE)


def package_versions() -> Dict[str, str]:
    """Return the versions of the Python packages that matter, those that are installed."""
    found = {name: package_version(name) for name in PACKAGES}
    return {name: version for name, version in found.items() if version is not None}


def check_software(root: Path, versions: Mapping[str, str], has_devices: bool) -> Iterator[Finding]:
    """Look at libedgetpu, the interpreter and pycoral.

    Args:
        root: Folder with `usr`, `lib` and `var`.
        versions: Versions of installed Python packages.
        has_devices: Whether a device is attached: what is missing is an error only then.
    """
    yield from _pycoral(versions)
    yield from _interpreters(versions, has_devices)
    library, packages = find_library(root), _debian_packages(root)
    if library is None:
        yield Finding(
            "libedgetpu",
            "error" if has_devices else "ok",
            "libedgetpu.so.1 is not installed" + ("" if has_devices else "; only the runner coral needs it"),
            "install libedgetpu1-std (or -max) from Coral, or a newer build of it" if has_devices else "",
        )
        return
    named = ", ".join(f"{name} {version}" for name, version in packages) or "no Debian package of it is installed"
    yield Finding("libedgetpu", "ok", f"/{library.relative_to(root)} ({named})")
    if len({name for name, _ in packages}) > 1:
        yield Finding(
            "libedgetpu", "warning", f"several builds are installed: {named}", "remove all but one of -std and -max"
        )
    yield from _fit(packages, versions)


def _pycoral(versions: Mapping[str, str]) -> Iterator[Finding]:
    version = versions.get("pycoral")
    if version is None:
        yield Finding("pycoral", "ok", "not installed; only `--runner coral --engine pycoral` needs it")
    elif version.startswith("0."):
        yield Finding(
            "pycoral",
            "error",
            f"pycoral {version} is PyPI's package of that name, which has nothing to do with Coral devices",
            "pip uninstall pycoral; Coral's own comes from Coral's package index",
        )
    else:
        runtime = versions.get("tflite-runtime")
        fits = runtime is not None
        yield Finding(
            "pycoral",
            "ok" if fits else "error",
            f"pycoral {version}" + (f" with tflite-runtime {runtime}" if fits else " without tflite-runtime"),
            "" if fits else "pip install tflite-runtime (2.5.0.post1 for Coral's own wheels)",
        )


def _interpreters(versions: Mapping[str, str], has_devices: bool) -> Iterator[Finding]:
    found = [f"{name} {versions[name]}" for name in PACKAGES[:3] if name in versions]
    if not found:
        yield Finding(
            "interpreter",
            "error" if has_devices else "warning",
            "no TFLite interpreter is installed",
            "pip install ai-edge-litert (Python 3.10 and later) or tflite-runtime (3.9)",
        )
        return
    yield Finding("interpreter", "ok", ", ".join(found))
    if as_numbers(versions.get("tflite-runtime", ""))[:2] == STOCK_GENERATION:
        yield Finding(
            "interpreter",
            "warning",
            f"tflite-runtime {versions['tflite-runtime']} is known to corrupt some newly quantised models in silence",
            "compare outputs with the reference items, or use a newer one with a libedgetpu that fits",
        )


def _fit(packages: List[Tuple[str, str]], versions: Mapping[str, str]) -> Iterator[Finding]:
    """Compare the TensorFlow of which libedgetpu is made with that of every interpreter."""
    if not packages:
        yield Finding(
            "runtime fit",
            "warning",
            "nobody tells of which TensorFlow this libedgetpu is made",
            "`respect doctor --link-test MODEL_edgetpu.tflite` tries it",
        )
        return
    name, version = packages[0]
    generation = library_generation(version)
    text = f"{name} {version} is made of TensorFlow {'.'.join(map(str, generation))}"
    way_out = "install a libedgetpu of the interpreter's TensorFlow (feranick/libedgetpu on GitHub has builds)"
    for package in ("tflite-runtime", "ai-edge-litert"):
        if package not in versions:
            continue
        runtime = as_numbers(versions[package])[:2]
        if package == "ai-edge-litert":
            fits = generation >= LITERT_GENERATION
        elif generation <= LAST_WITH_STOCK:
            fits = runtime <= LAST_WITH_STOCK
        else:
            fits = runtime == generation
        yield Finding(
            "runtime fit",
            "ok" if fits else "error",
            f"{text}, {package} is {versions[package]}"
            + ("" if fits else ": together they end in a segmentation fault"),
            "" if fits else way_out,
        )


def library_generation(version: str) -> Tuple[int, ...]:
    """Return the TensorFlow of which a Debian package of libedgetpu is made; Coral's own do not say."""
    found = _GENERATION.search(version)
    return (int(found.group(1)), int(found.group(2))) if found else STOCK_GENERATION


def find_library(root: Path) -> Optional[Path]:
    """Return the file of libedgetpu, None where there is none."""
    for folder in _LIBRARY_FOLDERS:
        found = sorted(root.glob(f"{folder}/libedgetpu.so.1*"))
        if found:
            return found[0]
    return None


def _debian_packages(root: Path) -> List[Tuple[str, str]]:
    """Return name and version of every installed Debian package of libedgetpu's library."""
    text = ""
    with suppress(OSError):
        text = (root / "var/lib/dpkg/status").read_text(encoding="utf-8", errors="replace")
    found = []
    for entry in text.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Status|Version): (.*)$", entry, re.MULTILINE))
        name = fields.get("Package", "")
        if name.startswith("libedgetpu1") and fields.get("Status", "").endswith(" installed"):
            found.append((name, fields.get("Version", "")))
    return found
