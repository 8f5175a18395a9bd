"""Writes records into files: their folders, open files, and the offsets that may be committed."""
