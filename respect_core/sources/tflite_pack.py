"""Packing a model of the schema module's object API into the bytes of a TFLite file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from respect_core.sources.tflite_file import IDENTIFIER

if TYPE_CHECKING:
    import flatbuffers

DATA_ALIGNMENT: Final = 16
"""Bytes to a multiple of which the data of a buffer are aligned in the file, as the schema demands."""


def data_buffer(data: NDArray[np.uint8] | None) -> Any:
    """Return a `BufferT` whose data will be aligned in the file; its own `Pack` does not see to that.

    Args:
        data: The data, None for a buffer without. Shape (bytes,). They are copied only when the file is packed.
    """
    from ai_edge_litert.schema_py_generated import BufferT

    buffer = BufferT(data=data)
    if data is not None:
        plain = buffer.Pack

        def pack(builder: flatbuffers.Builder) -> int:
            builder.Prep(DATA_ALIGNMENT, data.nbytes)
            return int(plain(builder))

        buffer.Pack = pack
    return buffer


def packed(model: Any, size: int = 1024) -> bytes:
    """Return the bytes of a file.

    Args:
        model: A `ModelT`.
        size: What the file will take at most. More is possible, but costs time and, for a moment, twice the memory.
    """
    import flatbuffers

    builder = flatbuffers.Builder(size)
    builder.Finish(model.Pack(builder), file_identifier=IDENTIFIER)
    return bytes(memoryview(builder.Bytes)[builder.Head() :])
