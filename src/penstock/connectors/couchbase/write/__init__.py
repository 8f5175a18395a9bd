"""Records as documents, sub-documents and statements."""
