"""What configurations may say: settings, and the plans that are made of them."""
