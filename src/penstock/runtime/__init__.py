"""A worker at run time: the herder's commands carried out, and what a worker keeps beside it.

worker       a member of the cluster; standalone: one without a cluster
planning     a task's configuration → its plugins, converters and clients
instances    the connectors that run, with their monitors
providers    configuration values that stand elsewhere; reload: when they change
metrics, loggers
"""
