"""How the paper is read where several experiments stand before the same question."""

from __future__ import annotations

LEVELS = (
    "'K = 5, L = 4' (D.3, E.1, E.2) uses Glow's terms, but NICE has no levels: read as 4 couplings "
    "with 5 hidden layers each."
)
MIXTURE = (
    "The paper describes choosing between two proposals, and correcting only for the chosen one, "
    "as an approximation (D.3); it is exact."
)
WHITENED = "sigma_a is in whitened units: the paper does not say which units it has."


def not_reduced(section: str, scale: str, of: str) -> str:
    """Return how a deviation of fresh draws is read that is called reduced, and is not.

    Example:
        >>> not_reduced("E.2", "1", "normal")
        "E.2 calls sigma_r 'reduced', but 1 is the normal prior's own: the number is taken."
    """
    return (
        f"{section} calls sigma_r 'reduced', but {scale} is the {of} prior's own: the number is "
        "taken."
    )
