"""Each framework's words for running out of memory: real messages, in the framework's own types of error.

Provoked here (PyTorch 2, TensorFlow 2, MXNet 1, under RLIMIT_DATA on a CPU), or taken from the report that is named.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import PROJECT

from runner.environments.definition import read

MEMORY, IF_SHORT, FAILED = "memory", "where memory is short", "failed"
SAID = Path(__file__).parent / "said.py"

ROWS = {
    "pytorch": [
        ("builtins.RuntimeError", "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate "
         "memory: you tried to allocate 34560000 bytes. Error code 12 (Cannot allocate memory)", MEMORY),
        ("builtins.RuntimeError", "std::bad_alloc", MEMORY),
        ("builtins.RuntimeError", "could not create a primitive", IF_SHORT),  # provoked; pytorch #89104: an instruction
        ("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 20.50 MiB. GPU 0 has a total capacity of "
         "79.15 GiB of which 12.94 MiB is free.", MEMORY),
        ("builtins.RuntimeError", "CUDA error: out of memory", MEMORY),
        ("builtins.RuntimeError", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
         MEMORY),  # QwenLM/Qwen3 #873
        ("builtins.RuntimeError", "GET was unable to find an engine to execute this computation; cuDNN error: "
         "CUDNN_STATUS_ALLOC_FAILED", MEMORY),  # QwenLM/Qwen3-VL #151
        ("builtins.RuntimeError", "GET was unable to find an engine to execute this computation",
         IF_SHORT),  # pytorch #108645
        ("builtins.RuntimeError", "Unable to find a valid cuDNN algorithm to run convolution",
         IF_SHORT),  # XPixelGroup/DiffBIR #59
        ("builtins.RuntimeError", "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a "
         "non-contiguous input.", IF_SHORT),  # pytorch #3038: of a batch of 200,704, whatever the memory
        ("builtins.MemoryError", "Unable to allocate 1.12 TiB for an array with shape (307200, 10)", MEMORY),
        ("builtins.RuntimeError", "can't start new thread", IF_SHORT),
        ("builtins.ValueError", "Expected more than 1 value per channel when training, got input size "
         "torch.Size([1, 16])", FAILED),
        ("builtins.RuntimeError", "mat1 and mat2 shapes cannot be multiplied (1x4 and 5x6)", FAILED),
    ],
    "mxnet": [
        ("mxnet.base.MXNetError", 'Traceback (most recent call last):\n  File "../src/storage/./cpu_device_storage.h", '
         "line 74\nMXNetError: Failed to allocate CPU Memory", MEMORY),
        ("mxnet.base.MXNetError", "MXNetError: could not create a memory object", IF_SHORT),
        ("mxnet.base.MXNetError", "MXNetError: could not execute a primitive", IF_SHORT),
        ("mxnet.base.MXNetError", "MXNetError: Resource temporarily unavailable", IF_SHORT),
        ("mxnet.base.MXNetError", "[11:18:15] src/storage/./pooled_storage_manager.h:157: cudaMalloc failed: out of "
         "memory", MEMORY),  # mxnet #675
        ("mxnet.base.MXNetError", "src/operator/nn/./cudnn/cudnn_convolution-inl.h:744: Failed to find any forward "
         "convolution algorithm.", IF_SHORT),  # mxnet #11176: smaller batches helped one, and not another
        ("mxnet.base.MXNetError", "Check failed: assign(&dattr, vec.at(i)): Incompatible attr in node", FAILED),
    ],
    "tensorflow": [
        ("tensorflow.errors.ResourceExhaustedError", "OOM when allocating tensor with shape[1500,15,15,32] and type "
         "float on /job:localhost/replica:0/task:0/device:CPU:0 by allocator mklcpu", MEMORY),
        ("tensorflow.errors.AbortedError", "Operation received an exception:Status: 1, message: could not create a "
         "memory object", MEMORY),
        ("builtins.MemoryError", "std::bad_alloc", MEMORY),
        ("tensorflow.errors.InternalError", "Failed to allocate: CUDA_ERROR_OUT_OF_MEMORY: out of memory", MEMORY),
        ("tensorflow.errors.InternalError", "Dst tensor is not initialized.", MEMORY),
        ("tensorflow.errors.InternalError", "Blas GEMM launch failed: CUBLAS_STATUS_ALLOC_FAILED", MEMORY),
        ("tensorflow.errors.InternalError", "failed to create cublas handle: CUBLAS_STATUS_NOT_INITIALIZED",
         IF_SHORT),  # tensorflow #9489
        ("tensorflow.errors.UnknownError", "Failed to get convolution algorithm. This is probably because cuDNN failed "
         "to initialize, so try looking to see if a warning log message was printed above.",
         IF_SHORT),  # tensorflow #24828: memory is one of four causes that it names
        ("tensorflow.errors.NotFoundError", "No algorithm worked!", IF_SHORT),
        ("tensorflow.errors.InvalidArgumentError", "Incompatible shapes: [4,9] vs. [4,8]", FAILED),
    ],
    "numpy": [
        ("builtins.MemoryError", "Unable to allocate 40.0 B for an array with shape (5,)", MEMORY),
        ("builtins.ValueError", "operands could not be broadcast together", FAILED),
    ],
}  # fmt: skip


@pytest.mark.parametrize("framework", ROWS)
def test_an_error_is_memory_by_its_sign_or_where_memory_was_short_and_nothing_else_is(framework: str) -> None:
    rows = ROWS[framework]
    done = subprocess.run(
        [read(PROJECT, framework, "cpu").interpreter, SAID, framework],
        input=json.dumps([(kind, message) for kind, message, _ in rows]),
        capture_output=True,
        text=True,
        check=True,
    )
    taken_for = json.loads(done.stdout.splitlines()[-1])
    assert {row[1]: found for row, found in zip(rows, taken_for, strict=True)} == {row[1]: row[2] for row in rows}
