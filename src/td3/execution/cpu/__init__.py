"""The traced update as a plan of kernels on a CPU."""
