"""Experiments on tables: Table 2."""
