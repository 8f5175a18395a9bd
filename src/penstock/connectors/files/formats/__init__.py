"""What files hold: records as bytes, by the table in `formats`."""
