import numpy as np
from numpy.typing import NDArray

def offsets_are_valid(offsets: NDArray[np.int64], tokens: int) -> bool: ...
