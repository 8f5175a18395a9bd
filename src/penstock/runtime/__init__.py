"""A worker at run time: carries out the herder's commands.

worker       a member of the cluster; standalone: a worker without one
validation   of connector configurations
planning     task configurations and flow plans; task_clients: their Kafka clients
instances    the running connector instances
providers    config providers; reload: restarts when a secret expires
metrics, loggers
"""
