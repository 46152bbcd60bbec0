"""Trace a model of the user's code by torch.fx, and write it as nodes of our layer records and its tensors."""
