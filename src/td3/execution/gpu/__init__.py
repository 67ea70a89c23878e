"""The traced update as CUDA graphs, with fused kernels."""
