"""The data plane: connector tasks on standing Spark tasks.

    driver/  in the worker: which slots there are, and which task is on which
    stage/   in Spark's Python workers: the tasks themselves
    spark/   Spark: its session, the Java in its JVMs, its cluster

`plan` says what a task does; `messages` and `control` are what worker and stage share.
"""
