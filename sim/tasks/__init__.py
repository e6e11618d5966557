"""One file per task: scene, starts, reset, verifier, scripted expert."""
