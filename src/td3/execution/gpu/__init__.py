"""Execution on a GPU: the traced update as CUDA graphs with fused kernels."""
