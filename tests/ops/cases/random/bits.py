"""Rows of random bits out of explicit states. The expected ones are those of XLA's CPU backend (jaxlib 0.10.2)."""

from __future__ import annotations

import numpy as np

from tests.ops.case import Case, Fixed, row

STATE = np.array([0x0123456789ABCDEF, 2**64 - 2], np.uint64)
XLA = {
    ("threefry", (), "uint32"): (18446744073709551615, [
        2968789339,
    ]),
    ("threefry", (5,), "uint32"): (1, [
        2968789339, 3784990900, 188576916, 2901984476, 2862930057,
    ]),
    ("threefry", (3, 5), "uint32"): (7, [
        2968789339, 3784990900, 188576916, 2901984476, 2862930057, 1973758215, 3554510355, 902882801, 2396094436, 2083461592,
        3732519869, 387185944, 2963079838, 2105865281, 1822680882,
    ]),
    ("threefry", (3, 4), "uint32"): (4, [
        2968789339, 3784990900, 188576916, 2901984476, 2862930057, 1798685940, 1973758215, 3554510355, 902882801, 2396094436,
        2083461592, 42261475,
    ]),
    ("threefry", (2, 3, 2), "uint32"): (4, [
        2968789339, 188576916, 2862930057, 1973758215, 902882801, 2083461592, 3784990900, 2901984476, 1798685940, 3554510355,
        2396094436, 42261475,
    ]),
    ("threefry", (), "uint64"): (18446744073709551615, [
        16256412134126395739,
    ]),
    ("threefry", (5,), "uint64"): (3, [
        16256412134126395739, 12463928418108273812, 7725297290937948297, 15266505729992108295, 10291147241650447857,
    ]),
    ("philox", (), "uint32"): (18446744073709551615, [
        172511636,
    ]),
    ("philox", (5,), "uint32"): (0, [
        172511636, 1103493126, 3598856174, 948282324, 1105943027,
    ]),
    ("philox", (3, 4), "uint32"): (1, [
        172511636, 1103493126, 3598856174, 948282324, 1105943027, 812877280, 1535849353, 2724394620, 1879495268, 3609187550,
        989808270, 1085667176,
    ]),
    ("philox", (5,), "uint64"): (1, [
        4739466887703318932, 4072841572553732078, 3491281334367377907, 11701185795834196873, 15501342494259860068,
    ]),
}


def from_xla(algorithm: str, shape: tuple[int, ...], dtype: str) -> Case:
    counter, bits = XLA[algorithm, shape, dtype]

    def oracle(state):
        return [np.array([state[0], counter], np.uint64), np.array(bits, dtype).reshape(shape)]

    return row("random.bit_generator", [Fixed(STATE)], oracle, algorithm=algorithm, out_shape=shape, out_dtype=dtype)


def long_state(state: list[int], after: list[int], bits: list[int]) -> Case:
    """A Philox state whose counter has two words."""
    return row("random.bit_generator", [Fixed(np.array(state, np.uint64))], algorithm="philox", out_shape=(6,),
               oracle=lambda s: [np.array(after, np.uint64), np.array(bits, np.uint32)])


def block(key: int, counter: int, bits: list[int]) -> Case:
    """A known answer of Threefry 2x32 with 20 rounds."""
    return row("random.bits", [Fixed(np.array([key, counter], np.uint64))], lambda s: np.array(bits, np.uint32),
               algorithm="threefry", out_shape=(2,))


CASES = [
    *(from_xla(*key) for key in XLA),
    long_state([0x0123456789ABCDEF, 2**64 - 1, 7], [0x0123456789ABCDEF, 1, 8],
               [3639791265, 4026419956, 3371458919, 2994632594, 2423524831, 96257625]),
    long_state([5, 2**64 - 2, 2**64 - 1], [5, 0, 0],
               [2914826838, 334851730, 828122064, 3355403621, 4279158131, 3594256059]),
    block(0, 0, [0x6B200159, 0x99BA4EFE]),
    block(2**64 - 1, 2**64 - 1, [0x1CB996FC, 0xBB002BE7]),
    block(0x0370734413198A2E, 0x85A308D3243F6A88, [0xC4923A9C, 0x483DF7A0]),
    row("random.bits", [Fixed(STATE)], algorithm="philox", out_shape=(0, 3)),
    row("random.bits", [Fixed(STATE)], algorithm="threefry", out_shape=(0,)),
    row("random.bits", [Fixed(STATE)], algorithm="threefry", out_shape=(40, 33)),
]
