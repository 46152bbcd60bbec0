"""Models, optimizers, data, weights, studies and trials. Imports no framework."""
