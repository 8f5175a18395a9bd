"""A worker at run time: carries out the herder's commands.

worker       a member of the cluster; standalone: a worker without one
planning     validation, task configurations, flow plans
instances    the running connector instances
providers    config providers; reload: restarts when a secret expires
metrics, loggers
"""
