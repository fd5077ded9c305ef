"""In: another library's flow. Out: a `Flow`. Each bridge is imported only when it is needed."""

from plmcmc.adapters.adapting import adapt
from plmcmc.adapters.glow_files import load_glow

__all__ = ["adapt", "load_glow"]
