"""One update under the microscope: what TD3 computes in each of its steps, for any checkpoint."""
