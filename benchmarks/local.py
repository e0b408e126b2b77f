"""Ten million entries sanitised, against one OpenDP call for each bit and for bits in bulk."""

from time import perf_counter

import numpy as np
import opendp.prelude as dp

import pufferkit as pk
from pufferkit.local import (
    KaryResponse,
    RandomizedResponse,
    cheapest_noise,
    estimate,
    loss,
    sanitize,
)

ENTRIES = 10_000_000
FEW = 20_000


def seconds(action) -> float:
    start = perf_counter()
    action()
    return perf_counter() - start


def main() -> None:
    dp.enable_features("contrib")
    chain = pk.MarkovChain.steady([[0.9, 0.1], [0.3, 0.7]])
    made = RandomizedResponse(chain, 0.25, 0.25)
    bits = np.random.default_rng(0).integers(0, 2, ENTRIES, dtype=np.uint8)

    ours = seconds(lambda: sanitize(bits, made))
    print(
        f"{ENTRIES:,} bits as an array: {ours:.2f} s, {ENTRIES / ours / 1e6:.1f} million a second"
    )
    kary = KaryResponse(pk.MarkovChain.steady(np.full((5, 5), 0.2)), 0.1)
    levels = np.random.default_rng(0).integers(0, 5, ENTRIES)
    taken = seconds(lambda: sanitize(levels, kary))
    print(f"{ENTRIES:,} entries of 5 states: {taken:.2f} s")
    stream = seconds(lambda: sum(1 for _ in sanitize(iter(bits[: ENTRIES // 10].tolist()), made)))
    print(f"{ENTRIES // 10:,} bits as a stream: {stream:.2f} s")
    taken = seconds(lambda: estimate(bits, made))
    print(f"estimates from {ENTRIES:,} answers: {taken:.2f} s")

    one = dp.m.make_randomized_response_bool(prob=0.75)
    single = seconds(lambda: [one(bool(bit)) for bit in bits[:FEW]]) / FEW * ENTRIES
    print(f"one OpenDP call for each bit: {single:.0f} s (from {FEW:,}); ratio {single / ours:.0f}")
    try:
        size = 1_000_000
        many = dp.m.make_randomized_response_bitvec(
            dp.bitvector_domain(max_weight=size), dp.discrete_distance(), f=0.5
        )
        packed = np.packbits(bits[:size]).tobytes()
        bulk = seconds(lambda: many(packed)) / size * ENTRIES
        print(f"OpenDP on packed bits: {bulk:.2f} s (from {size:,}); ratio {bulk / ours:.1f}")
    except Exception as error:  # another version of OpenDP
        print(f"OpenDP on packed bits: not measured ({error})")

    print("\nexact loss against every adversary, and cheapest noise for epsilon = 1:")
    for length in (100, 10_000, None):
        taken = seconds(lambda n=length: loss(chain, 0.2, 0.2, n))
        search = seconds(lambda n=length: cheapest_noise(chain, 1, length=n))
        print(f"  length {length}: loss {taken * 1e3:.1f} ms, cheapest noise {search * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
