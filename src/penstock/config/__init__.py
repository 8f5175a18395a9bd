"""Settings as values: declared once, then parsed, validated, rendered and documented from there."""
