"""Where files are: stores, behind the interface in `store`."""
