"""Experiments on MNIST's digits: Table 1, completions, training from incomplete ones."""
