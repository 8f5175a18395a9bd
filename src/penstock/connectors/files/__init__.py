"""Files, wherever they are: topics as files of a folder or of an object store.

Tables that combine freely (docs/decisions, 20). Imports point down:

    boundaries     *how*: where files begin and end, and their names; pure
    formats        *what*: records as bytes of a file
"""
