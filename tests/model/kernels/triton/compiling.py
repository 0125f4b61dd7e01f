"""Compile all Triton kernels of a window for a GPU that need not be there, for test_triton.py.

python -m tests.model.kernels.triton.compiling CAPABILITY DTYPE LANES UNITS, such as
90 bfloat16 256 1024

Prints a line of JSON for each kernel: its name and its shared memory.
"""

import json
import sys

import torch
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from triton.runtime.jit import JITFunction

from model.kernels.triton.window import run_backward, run_forward
from model.kernels.window import Inputs

TYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16", torch.int64: "i64"}


def compiled_for(capability):
    """Return what takes the place of a launch: it compiles the kernel for the same arguments."""
    target, seen = GPUTarget("cuda", capability, 32), set()

    def compile_instead(kernel, *arguments, grid, warmup, **options):
        names = kernel.arg_names
        values = dict(zip(names, arguments, strict=False))
        values |= {name: options.pop(name) for name in names if name in options}
        signature, constants, aligned = {}, {}, {}
        for index, name in enumerate(names):
            value = values[name]
            if torch.is_tensor(value):
                signature[name] = f"*{TYPES[value.dtype]}"
                divisible = value.data_ptr() % 16 == 0
            elif kernel.params[index].is_constexpr or value is None or value == 1:
                signature[name], constants[(index,)] = "constexpr", value
                continue
            else:
                signature[name], divisible = "i32", value % 16 == 0
            if divisible:
                aligned[(index,)] = [["tt.divisibility", 16]]
        key = str((kernel, signature, constants, aligned, options))
        if key in seen:
            return
        seen.add(key)
        binary = compile(ASTSource(kernel, signature, constants, aligned), target, options)
        assert binary.asm["cubin"]
        about = {"name": kernel.__name__, "shared": binary.metadata.shared}
        print(json.dumps(about), flush=True)

    return compile_instead


def main(capability, dtype, B, H):
    JITFunction.run = compiled_for(capability)

    def new(*sizes, of=dtype):
        return torch.zeros(sizes, dtype=of)

    h, c = new(B, H), new(B, H, of=torch.float32)
    weights = new(H, H), new(4 * H, H), new(4 * H, of=torch.float32)
    for x, indices in ((new(2, B, 5 * H), None), (new(256, 5 * H), new(2, B, of=torch.int64))):
        inputs = Inputs(x, indices, h, c, *weights)
        run_backward(inputs, run_forward(inputs, save=True), new(2, B, H), h, c)


if __name__ == "__main__":
    capability, dtype, B, H = sys.argv[1:]
    main(int(capability), getattr(torch, dtype), int(B), int(H))
