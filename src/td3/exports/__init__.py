"""A policy as a program in another format: NumPy, C, JavaScript, ONNX, torch.export."""
