"""Image states: the convolutional encoder and the replay buffer of frames."""
