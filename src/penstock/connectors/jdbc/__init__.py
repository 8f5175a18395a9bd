"""JDBC source and sink: tables of relational databases as topics, and topics as tables."""
