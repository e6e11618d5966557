"""Where the numbers of a campaign go besides its own pages: trackio, TensorBoard, W&B, MLflow, OpenTelemetry."""
