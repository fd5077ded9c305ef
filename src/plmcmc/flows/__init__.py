"""Normalizing flows: maps between data and latents, with log-determinants.

In: data or latents. Out: latents or data.
"""

from plmcmc.flows.beside import Beside
from plmcmc.flows.contract import BrokenFlow, check_flow
from plmcmc.flows.files import load, save
from plmcmc.flows.glow import Absolute, Glow
from plmcmc.flows.linear import Linear
from plmcmc.flows.mixture import GaussianMixture
from plmcmc.flows.nice import NICE
from plmcmc.flows.passes.arithmetic import full_precision, while_sampling
from plmcmc.flows.passes.captured import Captured, frozen_weights, record, rehearse, replayed
from plmcmc.flows.passes.compiled import Compiled, compiled_within
from plmcmc.flows.passes.lowered import lowered
from plmcmc.flows.passes.weight_cache import constant_weights
from plmcmc.flows.preprocessing import (
    ChannelsFirst,
    Dequantise,
    Flatten,
    Logit,
    Preprocessed,
    Step,
    Whiten,
)
from plmcmc.flows.protocol import ContextualFlow, Flow, differentiable, home, log_prob, sample
from plmcmc.flows.realnvp import RealNVP
from plmcmc.flows.rows import choose_rows, finite_rows, row_sum
from plmcmc.flows.tabular import TabularFlow
from plmcmc.flows.tilted import Tilted
from plmcmc.storage.stored import FileError

__all__ = [
    "NICE",
    "Absolute",
    "Beside",
    "BrokenFlow",
    "Captured",
    "ChannelsFirst",
    "Compiled",
    "ContextualFlow",
    "Dequantise",
    "FileError",
    "Flatten",
    "Flow",
    "GaussianMixture",
    "Glow",
    "Linear",
    "Logit",
    "Preprocessed",
    "RealNVP",
    "Step",
    "TabularFlow",
    "Tilted",
    "Whiten",
    "check_flow",
    "choose_rows",
    "compiled_within",
    "constant_weights",
    "differentiable",
    "finite_rows",
    "frozen_weights",
    "full_precision",
    "home",
    "load",
    "log_prob",
    "lowered",
    "record",
    "rehearse",
    "replayed",
    "row_sum",
    "sample",
    "save",
    "while_sampling",
]
