"""Read the settings of PyTorch's modules as those of layer records, and refuse what no record has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .network import Network
from .values import Call, Refused, Value, as_pair

Handler = Callable[[Network, Call], Any]
NO_RECORD = "there is no layer record for it"


def weights_of(call: Call, **roles: str) -> dict[str, Any]:
    """Return {role: path of the module's tensor}, for those that it has."""
    return {
        role: f"{call.place}.{name}" for role, name in roles.items() if getattr(call.module, name, None) is not None
    }


def image_of(call: Call) -> Value:
    """Return the input as an image with the channels before rows. Raises Refused for anything else."""
    if call.value.layout != "nchw":
        raise Refused(f"needs images (n, c, h, w), but gets {call.value.describe()}")
    return call.value


def one_of(pair: Any, what: str) -> int:
    """Return the number of a pair of equal ones. Raises Refused."""
    rows, columns = as_pair(pair)
    if rows != columns:
        raise Refused(f"{what} {rows} x {columns}: a layer record has one for both axes")
    return rows


def margins_of(padding: Any) -> Any:
    """Return the padding of a layer record: "valid", or (top, bottom, left, right)."""
    if isinstance(padding, str):
        return padding
    rows, columns = as_pair(padding)
    return "valid" if rows == columns == 0 else (rows, rows, columns, columns)
