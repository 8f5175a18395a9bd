"""What configurations may say."""
