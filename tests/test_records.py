"""Records in canonical form."""

import json

from hypothesis import given
from hypothesis import strategies as st

from pufferkit.records import canonical

# Letters, and what JSON escapes or might: quotes, controls, line separators, beyond two bytes.
TEXT = st.text(st.sampled_from('abé"\\/\n\x00\x1f\x7f\u2028\uffff😀'), max_size=6)


def bodies(values):
    return st.lists(st.tuples(TEXT, values), max_size=4).map(dict)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | bodies(inner),
    max_leaves=12,
)


@given(PLAIN)
def test_canonical_is_what_json_writes_with_sorted_keys(data):
    plain = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert canonical(data) == plain
