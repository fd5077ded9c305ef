"""What parts read, looked for before any of them runs: hours later would be late."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from plmcmc.data import DataError
from plmcmc.experiments.sources import cifar_file, faces_folder, mnist_files, uci, uci_names
from plmcmc.experiments.study import Place

Look = Callable[[], object]


def check_data(reads: str, parts: Sequence[str], place: Place) -> None:
    """Look for all that parts read, and read what is small.

    Args:
        reads: what kind of data: `"uci"`, `"mnist"`, `"cifar"`, `"faces"`; none are looked for if
            it is empty.
        parts: names of those that are to be run.
        place: where data are. Nothing is noted: no part was made of them yet.

    Raises:
        DataError: with all that is missing or cannot be read.
    """
    problems = []
    for look in _looks(reads, parts, place) if parts else ():
        try:
            look()
        except DataError as problem:
            problems.append(str(problem))
    if problems:
        raise DataError("\n".join(problems))


def _looks(reads: str, parts: Sequence[str], place: Place) -> Iterator[Look]:
    if reads == "uci":
        files = {name: uci_names(name) for name in dict.fromkeys(p.split(", ")[0] for p in parts)}
        yield partial(place.find_all, [*files.values()])
        # Those that are there, whether or not others are.
        yield from (partial(uci, name, place) for name, own in files.items() if place.there(own))
    elif reads == "mnist":
        yield partial(mnist_files, place)
    elif reads:
        from plmcmc.experiments.images.glow_flow import trained_before

        if any(not part.startswith("samples") for part in parts):
            yield partial(cifar_file if reads == "cifar" else faces_folder, place)
        yield partial(trained_before, reads, place)
