"""What penstock is tested with, for whoever writes a connector or runs a cluster of workers."""
