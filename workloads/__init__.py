"""WHAT is run: models, optimizers, data, weights, studies and trials. Imports no framework."""
