"""The data plane: connector tasks on standing Spark tasks.

    driver/  in the worker: the slots, and the tasks placed on them
    stage/   in Spark's Python workers: the tasks themselves
    spark/   Spark: its session, the Java in its JVMs, its cluster

`plan` describes a task; worker and stage share `messages` and `control`.
"""
