"""How the paper is read where it says too little of completed images: what holds of each task."""

from __future__ import annotations

from plmcmc.experiments.images.glow_flow import EPOCHS, PATCHES, SCALES, SIDE, STEPS, WIDTH

THEIRS = "The paper's flows are others' (K = 32, L = 3, 512 channels; D.1, D.2)"
TRAINED = f"{THEIRS}; this one was trained here by `plmcmc fit-flow`, and is smaller "
TRAINED += "(docs/results/images.md)."
TINY = (
    f"{THEIRS}. At scale smoke a tiny one is asked (K = {STEPS}, L = {SCALES}, {WIDTH} channels), "
    f"trained here for {EPOCHS} epochs on {PATCHES} patches of {SIDE} x {SIDE} pixels of "
    f"scikit-learn's two photographs; other patches of them are completed. That shows that all "
    f"runs, and nothing of the paper's images."
)
SCALE = "sigma_a is of pixels in [0, 1]: the scale is not said (D.1, D.2)."
OWN = {
    "cifar": (
        "The missing 'central quarter (an 8 x 8 pixel square)' (D.1) is a sixteenth; a quarter is "
        "16 x 16: both, at full scale.",
        "Chains begin with missing pixels copied, all channels together, from seen ones of the "
        "same image (5.1); so they begin at y_O = x_O.",
        "'Sampled starts' is Algorithm 1 from where CelebA's chains begin: at samples at "
        "temperature .5, the observed values not put in.",
    ),
    "celeba": (
        "The 'reduced variance' of the samples that chains begin at (5.2) is not printed: "
        "temperature .5, as in the figure of samples (D.2). Chains begin at the sample itself, "
        "whose seen half is not the image's, as in training.",
        "'Equal starts' is Algorithm 1 from where the default sampler's chains begin: at samples "
        "at temperature 1, the observed values put in.",
        "Real faces are not shown: pictures are of images that the flow drew at temperature .7, "
        "numbers of real ones.",
    ),
}
WHICH = {
    "cifar": "Which images, and how many, is not said (D.1): the first test images.",
    "celeba": "The paper's faces are 'at random from the full dataset' (D.2), which its flow may "
    "have been trained on: these are faces that ours was not trained on.",
}


def readings_of(task: str, *, embedded: bool) -> list[str]:
    """Return how the paper is read for `"cifar"` or `"celeba"`, on patches or on its images."""
    if embedded:
        return [TINY, *OWN[task], SCALE]
    return [TRAINED, *OWN[task], SCALE, WHICH[task]]
