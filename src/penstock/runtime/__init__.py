"""A worker at run time: carries out the herder's commands.

worker       the loop, and its parts; standalone: a worker without a cluster
inbox        events for the herder; ports: a worker's dependencies
herder_log   logs the herder's decisions at INFO, in Kafka Connect's words
topics       the internal topics; membership: of the group
leader       requests to the leader, and zombie fencing
connectors   the running connectors; instances: of their classes
tasks        the running tasks; task_offsets: the stored offsets of sources
validation   of connector configurations
planning     task configurations and flow plans; task_clients: their Kafka clients
providers    config providers; reload: restarts when a secret expires
metrics, loggers
"""
