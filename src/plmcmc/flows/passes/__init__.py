"""In: a flow. Out: the same passes, computed faster: replayed, compiled, lowered."""
