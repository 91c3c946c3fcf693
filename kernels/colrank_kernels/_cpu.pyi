import numpy as np
from numpy.typing import NDArray

def offsets_are_valid(offsets: NDArray[np.int64], tokens: int) -> bool: ...
def decode_linear(
    code: NDArray[np.uint8],
    ids: NDArray[np.uint16] | NDArray[np.uint32],
    scale: NDArray[np.float32],
    centroids: NDArray[np.float32],
    table: NDArray[np.float32],
    out: NDArray[np.float32],
) -> bool: ...
