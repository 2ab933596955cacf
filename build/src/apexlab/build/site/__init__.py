"""The page where people find the image for their torch, CUDA and GPU."""
