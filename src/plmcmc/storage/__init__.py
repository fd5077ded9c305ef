"""In: a description and tensors. Out: two files or an archive, and back, with suspicion."""
