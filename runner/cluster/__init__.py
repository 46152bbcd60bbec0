"""Trials on other machines: handing out blocks, running them there, shipping results back, and the engines for this."""
