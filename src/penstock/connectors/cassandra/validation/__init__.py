"""What a look at the cluster says of a configuration."""
