"""Blocks of every quantised type and what PyPI's `gguf` makes of them.

  vectors.py SEED COUNT    prints JSON {type: {"bytes": base64, "floats": base64 of float32}}, COUNT random blocks of each type

The blocks are random bytes with scales that are finite and of ordinary size. `vectors.json` beside this file is `vectors.py 1 2`.
"""
import base64
import json
import sys

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

# Places of half-precision numbers in a block.
SCALES = {
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
    T.F16: [0], T.BF16: [],
}

random = np.random.default_rng(int(sys.argv[1]))
count = int(sys.argv[2])
result = {}
for kind, places in SCALES.items():
    _, size = GGML_QUANT_SIZES[kind]
    n = count if size > 2 else 64
    blocks = random.integers(0, 256, (n, size), dtype=np.uint8)
    for place in places:
        scales = (random.normal(size=n) * 2.0 ** random.integers(-20, 4, n)).astype(np.float16)
        blocks[:, place:place + 2] = scales.view(np.uint8).reshape(n, 2)
    if kind == T.BF16:
        blocks[:, 1] &= 0xBF  # no infinity, no NaN
    floats = dequantize(blocks.reshape(1, -1), kind).astype("<f4")
    result[kind.name] = {"bytes": base64.b64encode(blocks.tobytes()).decode(), "floats": base64.b64encode(floats.tobytes()).decode()}
print(json.dumps(result, indent=1))
