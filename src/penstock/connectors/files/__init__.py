"""Topics as files of folders, servers or object stores, and files as topics.

Three tables that combine freely (docs/decisions, 20). Imports point down:

    ftp, hdfs, local, objects, spooldir       the connectors
    settings       the keys of configurations, and the tables whose entries they name
    monitor        files into records, as they change
    read           files into records, with an offset for each file or folder
    write          records into files: open files, uploads, committable offsets
    boundaries     *how*: where files begin and end, and their names; pure
    formats        *what*: records as bytes of a file
    stores         *where*: a file that exists when it is complete, or not at all
"""
