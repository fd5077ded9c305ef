"""How the paper is read where it says too little of completed images: what holds of each task."""

from __future__ import annotations

from plmcmc.experiments.images.glow_flow import EPOCHS, PATCHES, SCALES, SIDE, STEPS, WIDTH

THEIRS = "The paper uses pretrained flows by others (K = 32, L = 3, 512 channels; D.1, D.2)"
TRAINED = f"{THEIRS}; this one was trained with `plmcmc fit-flow`: it is smaller, its networks are "
TRAINED += "smooth, and its training adds noise to the images (docs/results/images.md)."
TINY = (
    f"{THEIRS}. Scale smoke uses a tiny flow (K = {STEPS}, L = {SCALES}, {WIDTH} channels), "
    f"trained for {EPOCHS} epochs on {PATCHES} patches of {SIDE} x {SIDE} pixels from "
    "scikit-learn's two photographs, and completes other patches of them. This shows only that "
    "everything runs, and nothing about the paper's images."
)
SCALE = "sigma_a refers to pixels in [0, 1]: the paper does not give the scale (D.1, D.2)."
OWN = {
    "cifar": (
        "The missing 'central quarter (an 8 x 8 pixel square)' (D.1) is a sixteenth of the image; "
        "a quarter is 16 x 16 pixels: full scale runs both.",
        "Chains start with missing pixels copied from observed ones of the same image, all "
        "channels together (5.1); so they start at y_O = x_O.",
        "'Sampled starts' is Algorithm 1 with the starting points of the CelebA chains: samples "
        "at temperature .5, without inserting the observed values.",
    ),
    "celeba": (
        "The 'reduced variance' of the samples from which chains start (5.2) is not given: "
        "temperature .5, as in the figure of samples (D.2). Chains start at the sample itself, "
        "whose observed half is not that of the image, as in training.",
        "'Equal starts' is Algorithm 1 with the starting points of the default sampler: samples "
        "at temperature 1, with the observed values inserted.",
        "Faces have as many levels as the flow: 5 bits for the one of docs/results/images.md. The "
        "paper does not say how many.",
        "Real faces are not shown: pictures show images drawn from the flow at temperature .7, "
        "numbers are for real ones.",
    ),
}
OVERFLOW = (
    "Where a chain would start at a sample of the flow that is not finite, it starts at one of "
)
OVERFLOW += "half the temperature."
WHICH = {
    "cifar": "The paper does not say which images, or how many (D.1): the first test images.",
    "celeba": "The paper's faces are 'at random from the full dataset' (D.2), on which its flow "
    "may have been trained: ours are faces on which our flow was not trained.",
}


def readings_of(task: str, *, embedded: bool) -> list[str]:
    """Return how the paper is read for `"cifar"` or `"celeba"`, on patches or on its images."""
    if embedded:
        return [TINY, *OWN[task], OVERFLOW, SCALE]
    return [TRAINED, *OWN[task], OVERFLOW, SCALE, WHICH[task]]
