"""Any of the mechanisms of this room, and reading one from what it wrote."""

from __future__ import annotations

from typing import get_args

from pufferkit import checks
from pufferkit.local.correlated_response import CorrelatedResponse
from pufferkit.local.matrix_response import MatrixResponse
from pufferkit.local.response import KaryResponse, RandomizedResponse

Response = RandomizedResponse | KaryResponse | MatrixResponse | CorrelatedResponse

_KINDS: dict[str, type[Response]] = {own.kind: own for own in get_args(Response)}


def mechanism_from_json(text: str) -> Response:
    """A mechanism of any kind, from what its ``to_json`` wrote."""
    data = checks.json_object("mechanism", text)
    kind = _KINDS.get(str(data.get("kind")))
    if kind is None:
        raise ValueError(f"mechanism: kind is {data.get('kind')!r}; known are {', '.join(_KINDS)}")
    return kind.from_dict(data)
