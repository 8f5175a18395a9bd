"""Records into files: which go where, open files, and what may be committed."""
