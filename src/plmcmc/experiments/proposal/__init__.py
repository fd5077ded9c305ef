"""The diagram of one proposal."""
