"""Networks that come from another source: a graph of operators becomes a tree of layer records."""
