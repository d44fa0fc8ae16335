"""Words of mint: new coins by inflation."""
