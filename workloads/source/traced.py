"""The files between the runner and the program that traces a model in its own framework.

The runner writes REQUEST_FILE: file, function, classes, input_shape (h, w, c) and seed. The program writes TRACED_FILE,
{"refused": a line} or {"model": its type, "parameters": their number, "nodes": as `graph.Node`, "sources": {"node/role":
[tensor of the source, first row, end]}}; and TENSORS_FILE, {"node/role": array}, channels last.
"""

from __future__ import annotations

REQUEST_FILE, TRACED_FILE, TENSORS_FILE = "request.json", "traced.json", "tensors.npz"
