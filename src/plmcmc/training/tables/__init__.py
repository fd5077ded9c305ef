"""In: a table's schema, what is seen. Out: a Gaussian, mixtures and a flow of its scores."""
