"""A worker at run time: carries out the herder's commands.

worker       a member of the cluster; standalone: a worker without one
inbox        the events on their way to the herder; herder_log: what its decisions mean, at INFO
topics       the three internal topics; membership, leader: the group, requests to its leader
connectors, tasks   what runs here; task_offsets: the stored offsets of source tasks
validation   of connector configurations
planning     task configurations and flow plans; task_clients: their Kafka clients
instances    the running connector instances
providers    config providers; reload: restarts when a secret expires
metrics, loggers
"""
