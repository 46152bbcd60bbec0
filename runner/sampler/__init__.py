"""The sampler, a process of its own that measures from outside."""
