"""Experiments on colour images: completions with Glow."""
