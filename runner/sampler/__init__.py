"""The sampler, a separate process that measures from outside."""
