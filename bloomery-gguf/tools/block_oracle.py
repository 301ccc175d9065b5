"""Writes tests/data/blocks/*.bin: blocks of every format and their values by the `gguf` package (0.19).

Run from bloomery-gguf: python tools/block_oracle.py   (needs gguf==0.19.0 and numpy)

A file holds n (u32), then n blocks, then their values as f32; everything little endian. Block bytes are random,
scales are finite: ordinary ones first, then d = 0, negative, subnormal and the largest half-precision number.
q8_0_quantize.bin holds n, then n * 32 values as f32, then their n blocks by gguf's quantiser.
"""

from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as T, quants
from gguf.constants import GGML_QUANT_SIZES

OUT = Path(__file__).parent.parent / "tests/data/blocks"
RNG = np.random.default_rng(20261129)
# Byte offsets of the f16 scales of each format.
SCALES = {
    T.F16: [0], T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0],
    T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
    T.IQ2_XXS: [0], T.IQ2_XS: [0], T.IQ2_S: [0], T.IQ3_XXS: [0], T.IQ3_S: [0], T.IQ1_S: [0],
    T.IQ4_NL: [0], T.IQ4_XS: [0],
}  # fmt: skip
FORMATS = [*SCALES, T.IQ1_M, T.MXFP4, T.NVFP4, T.BF16]
# (d, second scale): the second is the minimum's scale where there is one.
EDGES = [
    (0.0123, 0.0377), (1.0, -0.5), (0.0, 0.0377), (0.0123, 0.0), (-0.0123, 0.0377), (2**-24, -(2**-24)),
    (-777 * 2**-24, 1023 * 2**-24), (65504.0, 65504.0), (-0.0, 0.0),
]  # fmt: skip


def halves(values):
    return np.array(values, dtype="<f2").view(np.uint8).reshape(-1, 2)


def blocks(format, n):
    data = RNG.integers(0, 256, (n, GGML_QUANT_SIZES[format][1]), dtype=np.uint8)
    pairs = [EDGES[i] if i < len(EDGES) else RNG.normal(0, 0.05, 2) for i in range(n)]
    for column, at in enumerate(SCALES.get(format, [])):
        data[:, at : at + 2] = halves([pair[column] for pair in pairs])
    if format == T.IQ1_M:  # the scale's nibbles, lowest first, are the top nibbles of the four scale words
        d = halves([pair[0] for pair in pairs]).view("<u2").reshape(-1)
        for word in range(4):
            at = 48 + 2 * word + 1
            data[:, at] = (data[:, at] & 15) | ((d >> (4 * word)) & 15).astype(np.uint8) << 4
    if format == T.MXFP4:
        data[:6, 0] = [0, 1, 2, 127, 253, 254]
    if format == T.NVFP4:
        data[:, :4] &= 0x7F
        data[0, :4] = [0, 0x7F, 0x7E, 1]
        data[1, :4] = [7, 8, 0x38, 0x40]
    if format == T.BF16:  # no NaN: the sign and payload of one are not the subject
        data[:, 1] &= 0xBF
    return data


def write(name, *parts):
    OUT.mkdir(parents=True, exist_ok=True)
    n = np.array([len(parts[0])], dtype="<u4")
    (OUT / f"{name}.bin").write_bytes(b"".join([n.tobytes(), *(part.tobytes() for part in parts)]))


def main():
    for format in FORMATS:
        length = GGML_QUANT_SIZES[format][0]
        data = blocks(format, {1: 64, 32: 24, 64: 16, 256: 12}[length])
        with np.errstate(all="ignore"):
            values = np.concatenate([quants.dequantize(row[None], format) for row in data])
        assert values.size == len(data) * length and not np.isnan(values).any(), format
        write(format.name.lower(), data, values.astype("<f4"))

    x = RNG.normal(0, 1, (24, 32)).astype("<f4")
    x[0] = 0
    x[1] = -3.25
    x[2] = np.arange(32) - 15.5  # ties of the rounding
    x[3] = np.linspace(-127, 127, 32)
    x[4, 7] = 4000.0
    x[5] *= 1e-7  # the scale is a subnormal half
    x[6] *= 1e-12  # the scale rounds to zero
    x[7] *= 1e6
    x[8] = np.where(np.arange(32) % 2, 0.5, 127.0)
    x[9] = np.where(np.arange(32) % 3, -1.5, -127.0)
    write("q8_0_quantize", x, quants.quantize(x, T.Q8_0))


main()
