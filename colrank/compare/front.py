"""Which variants are worth their bytes, and which one a budget asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from colrank.errors import InputError


@dataclass(frozen=True, slots=True)
class Offer:
    """What a variant costs and gives.

    Attributes:
        name: the variant's.
        bytes: a passage.
        total: bytes of all files. Variants are weighed by these: models that split documents differently
            have different numbers of passages.
        quality: mean of what is compared, larger is better.
        loss: mean loss against the reference; `worst` is the upper end of its interval.
        milliseconds: a query.
    """

    name: str
    bytes: float
    total: float
    quality: float
    loss: float
    worst: float
    milliseconds: float


@dataclass(frozen=True, slots=True)
class Budget:
    """What the user can spend: bytes a passage, loss (judged by the interval's upper end), ms a query."""

    bytes: float | None = None
    loss: float | None = None
    milliseconds: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("bytes", self.bytes), ("ms", self.milliseconds)):
            if value is not None and not value > 0:
                raise InputError(f"The budget of {name} is {value!r}; give a number above 0.")
        if self.loss is not None and not 0 <= self.loss <= 1:
            raise InputError(f"The budget of loss is {self.loss!r}; give a number from 0 to 1.")

    @property
    def given(self) -> bool:
        """Whether there is any."""
        return any(value is not None for value in (self.bytes, self.loss, self.milliseconds))


def front(offers: Sequence[Offer]) -> list[str]:
    """Names of the variants that no other beats: none gives as much for fewer bytes, or more for as many."""
    return [
        offer.name
        for offer in offers
        if not any(
            other.total <= offer.total
            and other.quality >= offer.quality
            and (other.total < offer.total or other.quality > offer.quality)
            for other in offers
        )
    ]


def recommend(offers: Sequence[Offer], budget: Budget) -> Offer:
    """The variant for a budget: where loss is bounded the fewest bytes, else the most quality.

    Equal ones go by fewer bytes, more quality, then by name: times, which differ from run to run, only count
    against a budget of time.

    Raises:
        InputError: no variant keeps within the budget; the sentence names the nearest.
    """
    fitting = [offer for offer in offers if not _over(offer, budget)]
    if not fitting:
        nearest = min(offers, key=lambda offer: (max(_over(offer, budget).values()), offer.name))
        over = "; ".join(
            f"{value:,.4g} {unit}" for unit, value in _spent(nearest) if unit in _over(nearest, budget)
        )
        raise InputError(f"No variant keeps within the budget; the nearest is {nearest.name}, with {over}.")
    if budget.loss is not None:
        return min(fitting, key=lambda offer: (offer.total, -offer.quality, offer.name))
    return min(fitting, key=lambda offer: (-offer.quality, offer.total, offer.name))


_BYTES, _LOSS, _MS = "bytes a passage", "loss at worst", "ms a query"


def _spent(offer: Offer) -> list[tuple[str, float]]:
    return [(_BYTES, offer.bytes), (_LOSS, offer.worst), (_MS, offer.milliseconds)]


def _over(offer: Offer, budget: Budget) -> dict[str, float]:
    """By how many times each part of a budget is exceeded."""
    limits = {_BYTES: budget.bytes, _LOSS: budget.loss, _MS: budget.milliseconds}
    out = {}
    for unit, value in _spent(offer):
        limit = limits[unit]
        if limit is not None and value > limit:
            out[unit] = value / limit if limit else value + 1e9
    return out
