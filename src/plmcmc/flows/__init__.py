"""In: data or latents. Out: latents or data, with log-determinants."""

from plmcmc.flows.contract import BrokenFlow, check_flow
from plmcmc.flows.files import FileError, load, save
from plmcmc.flows.linear import Linear
from plmcmc.flows.nice import NICE
from plmcmc.flows.preprocessing import Dequantise, Flatten, Logit, Preprocessed, Step, Whiten
from plmcmc.flows.protocol import ContextualFlow, Flow, differentiable, home, log_prob, sample
from plmcmc.flows.realnvp import RealNVP
from plmcmc.flows.tabular import TabularFlow
from plmcmc.flows.tilted import Tilted

__all__ = [
    "NICE",
    "BrokenFlow",
    "ContextualFlow",
    "Dequantise",
    "FileError",
    "Flatten",
    "Flow",
    "Linear",
    "Logit",
    "Preprocessed",
    "RealNVP",
    "Step",
    "TabularFlow",
    "Tilted",
    "Whiten",
    "check_flow",
    "differentiable",
    "home",
    "load",
    "log_prob",
    "sample",
    "save",
]
