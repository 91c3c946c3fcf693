"""Whether the native kernels are used, with the environment's word on it."""

from __future__ import annotations

import colrank_kernels

from colrank.errors import InputError


def native_is_there() -> bool:
    """Whether native kernels are there and were not forgone.

    Raises:
        InputError: `COLRANK_KERNEL` or `COLRANK_THREADS` says what cannot be.
    """
    try:
        return colrank_kernels.native_is_there()
    except ValueError as error:
        raise InputError(str(error)) from error
